"""The REST interface against its own OpenAPI description, with generated requests: no 5xx, no undocumented answer.

``make test-contract`` runs this, with 1,000 requests a route (EXAMPLES: how many). Requests are valid and not valid,
and are sent by a steward. A refit is not started: that would be hundreds of processes.
"""

import os

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis to test the REST interface")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402

from bayespatch.web import Settings, create_app  # noqa: E402
from tests.casebase.clinic import Places  # noqa: E402
from tests.web.conftest import VALUES  # noqa: E402
from tests.web.test_routes import TABLE  # noqa: E402

EXAMPLES = int(os.environ.get("EXAMPLES", "1000"))
PREFIX = "/api/v1"
ROUTES = [(method, path.removeprefix(PREFIX)) for method, path in TABLE if path.startswith(PREFIX)]
ROUTES.remove(("GET", "/openapi.json"))
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    app = create_app(Settings(Places(tmp_path_factory.mktemp("clinic"), None).copy(), sign_in=False, rate=10**9))
    service = app.state.service
    service.start_refit = lambda by: None
    close, service.close = service.close, lambda: None  # each call begins and ends the application
    service.base.consult(VALUES, by="tester")
    yield schemathesis.openapi.from_asgi("/api/v1/openapi.json", app, headers={"Host": "127.0.0.1"})
    assert service.base.verify_audit().intact
    close()


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_answer_is_described(described, method, path, mode):
    operation = described[path][method]
    kind = schemathesis.GenerationMode[mode]
    try:
        cases = operation.as_strategy(generation_mode=kind)
    except Exception as error:  # nothing about this route can be wrong
        pytest.skip(str(error))

    @given(case=cases)
    @settings(
        max_examples=EXAMPLES // 2,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    def one(case):
        response = case.call(headers={"Host": "127.0.0.1"})
        case.validate_response(response, checks=CHECKS)

    try:
        one()
    except Unsatisfiable:
        pytest.skip("nothing about this route can be wrong")
