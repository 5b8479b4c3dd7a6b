from study.parts import PARTS, Context
from study.protocol import BALANCED, QUICK


def test_cohorts_are_loaded_once():
    context = Context(seed=0, sizes=QUICK)
    assert context.both is context.both
    assert [cohort.name for cohort in context.both] == ["heart", "breast"]


def test_a_scan_has_balanced_parents_and_one_short_chain():
    found = Context(seed=0, sizes=QUICK).scan("II", n_parents=40)
    assert (found.setting, found.model, found.scan, found.n_parents) == (BALANCED, "II", True, 40)


def test_parts_have_names_of_their_own():
    names = [part.name for part in PARTS]
    assert len(set(names)) == len(names)
    assert [part.name for part in PARTS if part.needs_readmission] == ["readmission"]
