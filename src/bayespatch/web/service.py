"""Shared state of all requests: the case base, the queue in front of its model, recent answers, a running refit."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from bayespatch.casebase import CaseBase
from bayespatch.casebase.errors import CaseBaseError, ConflictError, NotFoundError
from bayespatch.casebase.models import ModelVersion
from bayespatch.casebase.people import STEWARD, Person
from bayespatch.casebase.refit import Refit
from bayespatch.casebase.retained import State
from bayespatch.dictionary import Value
from bayespatch.explain.overview import Overview
from bayespatch.language import ENGLISH, to_translate, using
from bayespatch.report import model_body
from bayespatch.types import JSONObject
from bayespatch.web.metrics import Metrics, monitoring_gauges, resident_bytes
from bayespatch.web.queue import Queue
from bayespatch.web.rate import Rate
from bayespatch.web.record_systems import RecordSystems
from bayespatch.web.refusals import refusal_of
from bayespatch.web.settings import Settings
from bayespatch.web.single_sign_on import Provider, SingleSignOn
from bayespatch.web.throttle import Throttle, network_of
from bayespatch.web.visibility import shown_overview

T = TypeVar("T")
LOCAL = Person("local", STEWARD, None, "", None)  # the default user without sign-in
CASES = "/cases/"  # link to a past case
_ANSWERS = 200  # answers to keep, so that the version before a change is not computed again
_CONNECTIONS = 8  # threads that use the database in addition to those of the queue
_MONITORED = 600.0  # seconds for which the gauges of the monitoring checks are reused
_HEALTH = 5.0  # seconds for which the result of the health check is reused
_BY_NAME = (5, 900.0)  # wrong passwords per name and address without a delay, and the longest delay
_BY_ADDRESS = (50, 10.0)  # the same per address, which a whole hospital may share
_ASKING = 4  # sign-ins that wait for the provider at the same time
_PROVIDER_RATE = 120  # new sign-ins at the provider per minute and address
_HASHES, _SIGN_INS = 2, 30  # passwords hashed at the same time (64 MiB each), and passwords that may wait


def _in_english(work: Callable[..., T], *args: object, **kwargs: object) -> T:
    """Call a function in English, because stored text and responses to programs must not depend on the user."""
    with using(ENGLISH):
        return work(*args, **kwargs)


@dataclass(frozen=True)
class RefitState:
    """Whether a refit is running, and how the last one ended."""

    running: bool
    result: str


class Service:
    """The case base served by one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        path = settings.single_sign_on
        self.provider = Provider(SingleSignOn.read(path)) if path else None
        systems = settings.record_systems
        self.record_systems = RecordSystems.read(systems) if systems else None
        self.asking = Queue(_ASKING, _SIGN_INS, settings.seconds)
        self.provider_rate = Rate(_PROVIDER_RATE, 60.0)
        # One thread per question: several run at a time, and splitting one costs more than it saves.
        self.base = CaseBase.open(settings.casebase, create=False, folder=settings.folder or None, n_jobs=1)
        self.queue = Queue(settings.threads, settings.waiting, settings.seconds)
        self.metrics = Metrics()
        self.rate = Rate(settings.rate, 60.0)
        self.refusals = Rate(20, 60.0)
        self.by_name, self.by_address = Throttle(*_BY_NAME), Throttle(*_BY_ADDRESS)
        self.hashing = Queue(_HASHES, _SIGN_INS, settings.seconds)
        self.reports: OrderedDict[str, Overview] = OrderedDict()  # of models, by SHA-256
        self._answers: OrderedDict[tuple[State | None, str, str], tuple[int, JSONObject]] = OrderedDict()
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(32)
        self._limiter: anyio.CapacityLimiter | None = None
        self._health: tuple[float, JSONObject] = (0.0, {})
        self._monitored: tuple[float, dict[str, float]] = (-math.inf, {})
        self._probing = threading.Lock()
        self.refit: Refit | None = None
        self.refit_result: str = ""

    @property
    def single_sign_on(self) -> SingleSignOn | None:
        """Settings for sign-in at an OpenID provider; None without single sign-on."""
        return None if self.provider is None else self.provider.settings

    async def do(self, work: Callable[..., T], *args: object, **kwargs: object) -> T:
        """Call a function that waits for the database in a thread; its messages are in English."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_CONNECTIONS)
        return await anyio.to_thread.run_sync(partial(_in_english, work, *args, **kwargs), limiter=self._limiter)

    def close(self) -> None:
        """Wait for running work, and release all resources."""
        self.queue.close()
        self.hashing.close()
        self.asking.close()
        if self.refit is not None and self.refit.running:
            self.refit.cancel()  # it resumes when it is started again
        self.base.close()

    def csrf(self, session: str) -> str:
        """The CSRF token of this session's forms."""
        key = self._secret if not session else b"csrf"
        return hmac.new(key, session.encode(), hashlib.sha256).hexdigest()

    # Rejected requests

    def known_name(self, name: str) -> dict[str, str]:
        """The logged form of a typed name: the name if there is such an account, otherwise a hash.

        Within one process, equal hashes mean equal names; they cannot be computed without its key.
        """
        if self.base.people.find(name) is not None:
            return {"person": name}
        return {"name_hash": hmac.new(self._secret, name.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16]}

    async def record_refusal(self, why: str, who: str | None, **details: str) -> None:
        """Record in the audit log that a request was rejected; during a flood, only the first ones."""
        address = details.get("address", "-")
        if self.refusals.wait(f"{why} {network_of(address)}"):
            return
        try:
            await self.do(self.base.people.refuse, why, by=who, **details)
        except CaseBaseError as error:
            refusal_of(error)  # also logs it

    # Questions to the model

    def active(self) -> ModelVersion | None:
        """The active version."""
        return next((model for model in self.base.models() if model.state == "active"), None)

    async def ask(
        self, values: Mapping[str, Value], by: str, *, first: bool = False, patient: str | None = None
    ) -> tuple[int, JSONObject]:
        """Ask the model without storing the answer; a repeated question from the same user is answered from memory.

        `first` marks the first version of a comparison, which the user has already seen.
        """
        state = await self.do(self.base.state)
        key = (state, by, json.dumps([values, patient], sort_keys=True))
        with self._lock:
            stored = self._answers.get(key)
        if stored is not None:
            if not first:
                await self.do(self.base.record_ask, stored, by=by)
            return stored
        answer = await self.queue.run(self.base.ask, values, by=by, patient=patient, error=self.settings.error)
        with self._lock:
            for old in [old for old in self._answers if old[0] != state]:
                del self._answers[old]  # past cases were forgotten or retained
            self._answers[key] = answer
            while len(self._answers) > _ANSWERS:
                self._answers.popitem(last=False)
        return answer

    async def counterfactual(
        self,
        values: Mapping[str, Value],
        by: str,
        change: Sequence[str] | None,
        *,
        to: Value | None = None,
        most: int = 3,
        patient: str | None = None,
    ) -> tuple[int, JSONObject]:
        """The smallest change that changes the prediction."""
        options = {"by": by, "to": to, "most": most, "patient": patient, "error": self.settings.error}
        return await self.queue.run(self.base.counterfactual, values, change, **options)

    def report(self, person: Person, language: str) -> str | None:
        """The report of the active model as visible to the user; None without a model. The first call is slow."""
        model = self.active()
        if model is None or model.sha256 is None:
            return None
        with self._lock:
            whole = self.reports.get(model.sha256)
        if whole is None:
            whole = self.base.model().overview()
            with self._lock:
                self.reports.clear()
                self.reports[model.sha256] = whole
        shown = shown_overview(whole, self.base.definition, person)
        cases = sorted({int(case.id) for case in (*shown.influential, *shown.unusual)})
        self.base.record_report(model.version, cases, by=person.name)
        with using(language):
            return model_body(shown, case_link=CASES, intended_use=self.settings.intended_use)

    # Refits

    def start_refit(self, by: str) -> None:
        """Start a refit in a separate process."""
        with self._lock:
            if self.refit is not None and self.refit.running:
                raise ConflictError("a refit is running; wait for it, or cancel it")
            refit = self.base.refit(by=by, wait=False)
            assert isinstance(refit, Refit)
            self.refit, self.refit_result = refit, ""

    def cancel_refit(self) -> None:
        """Cancel a refit; nothing changes."""
        with self._lock:
            refit = self.refit
        if refit is None or not refit.running:
            raise NotFoundError("no refit is running, or another process started it")
        refit.cancel()
        with self._lock:
            self.refit, self.refit_result = None, to_translate("The refit was canceled; nothing has changed.")

    def refit_state(self) -> RefitState:
        """Whether a refit is running, and how the last one ended."""
        with self._lock:
            if self.refit is not None and not self.refit.running:
                try:
                    version = self.refit.wait()
                    self.refit_result = (
                        f"Version {version} is ready. Compare it with the active version, then promote it to use it."
                    )
                except CaseBaseError as error:
                    self.refit_result = f"The last refit failed: {error}"
                self.refit = None
            return RefitState(self.refit is not None, self.refit_result)

    # Health and metrics

    def health(self) -> JSONObject:
        """Whether the service can answer and write to the database; checked at most every few seconds."""
        at, state = self._health
        if state and (time.monotonic() - at < _HEALTH or not self._probing.acquire(blocking=False)):
            return state
        if not state:
            self._probing.acquire()
        try:
            self._health = time.monotonic(), self._probe()
        finally:
            self._probing.release()
        return self._health[1]

    def _probe(self) -> JSONObject:
        try:
            self.base.check_writable()
            model = self.active()
        except CaseBaseError as error:
            refusal = refusal_of(error)  # also logs it
            assert refusal is not None
            return {"status": "the database cannot be used", "model": None}
        return {"status": "ok" if model is not None else "no active model", "model": model and model.version}

    def gauges(self, by: str) -> dict[str, float]:
        """Current gauges, and the monitoring checks, which are repeated at most every ten minutes."""
        if time.monotonic() - self._monitored[0] > _MONITORED:
            self._monitored = time.monotonic(), self._monitoring(by)
        return {
            "queue_pending": self.queue.pending,
            "queue_refused": self.queue.refused,
            "queue_late": self.queue.late,
            "resident_bytes": resident_bytes(),
            "cpu_seconds": time.process_time(),
            **self._monitored[1],
        }

    def _monitoring(self, by: str) -> dict[str, float]:
        """The checks as gauges; none without a model or a database."""
        try:
            return monitoring_gauges(self.base.monitor(by=by), self.base.definition)
        except CaseBaseError as error:
            refusal_of(error)  # also logs it
            return {}
