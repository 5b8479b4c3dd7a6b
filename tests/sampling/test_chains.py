"""A run and its keeper; how `sample` drives a run, interrupts it and shows it is in test_sample."""

from __future__ import annotations

import pytest

from bayespatch.engine.paper import PaperEngine
from bayespatch.model import Model
from bayespatch.progress import progress_meter
from bayespatch.sampling.chains import Run
from bayespatch.sampling.posterior import SamplingSettings
from bayespatch.validation import check_data
from tests.checkpointed import problem


def make_run(chains=3, draws=4, warmup=3, thin=2, engine=PaperEngine):
    data = check_data(**problem())
    settings = SamplingSettings("paper", chains, draws, warmup, thin, seed=1)
    engines = [engine(data, Model()) for _ in range(chains)]
    return Run(engines, settings, keep_w=False, keep_votes=False, begin=None)


class Witness:
    """A keeper that notes how far the chains are whenever they meet."""

    def __init__(self, interrupt_at=None):
        self.met, self.ended, self.interrupt_at = [], [], interrupt_at

    def meet(self, run):
        self.met.append((list(run.n_swept), list(run.n_kept)))
        if len(self.met) == self.interrupt_at:
            raise KeyboardInterrupt

    def end(self, run):
        self.ended.append((list(run.n_swept), list(run.n_kept)))


def test_chains_are_level_whenever_they_meet():
    witness = Witness()
    make_run().run(2, progress_meter(False), witness)
    assert witness.met
    for swept, kept in witness.met:
        assert len(set(swept)) == len(set(kept)) == 1
        assert swept[0] == (3 + 2 * kept[0] if kept[0] else swept[0])
    assert witness.ended == [([11] * 3, [4] * 3)]


@pytest.mark.parametrize("at", [1, 2, 5])
def test_an_interrupted_run_is_kept_as_far_as_it_came(at):
    run, witness = make_run(draws=100), Witness(interrupt_at=at)
    try:
        run.run(2, progress_meter(False), witness)
        assert min(run.n_kept) > 0
    except KeyboardInterrupt:
        assert min(run.n_kept) == 0
    assert witness.ended == [witness.met[-1]]


def test_what_broke_within_a_sweep_is_not_kept():
    class Breaks(PaperEngine):
        def sweep(self, state, adapt=False):
            super().sweep(state, adapt)
            if state.n_sweeps == 5:
                raise KeyboardInterrupt

    witness = Witness()
    with pytest.raises(KeyboardInterrupt):
        make_run(engine=Breaks).run(1, progress_meter(False), witness)
    assert witness.ended == []


def test_a_chain_between_two_draws_goes_on_from_there():
    """Three sweeps of warm-up, one draw, and one or both sweeps of the next: the same draws come."""
    whole = make_run()
    whole.run(1, progress_meter(False))
    for n_more in (0, 1, 2):
        run = make_run()
        for chain, engine in enumerate(run.engines):
            run._start(chain, 1)
            run._warm_up(chain, 3)
            run._draw(chain, 1)
            for _ in range(n_more):
                engine.sweep(run.states[chain])
                run.n_swept[chain] += 1
        run.run(1, progress_meter(False))
        assert run.n_swept == whole.n_swept
        for name, draws in whole.draws.items():
            assert (draws == run.draws[name]).all()
        for name, sums in whole.sums.items():
            assert (sums == run.sums[name]).all()
