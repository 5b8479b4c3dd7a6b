"""Random sequences of operations give what the rules say; `make test-casebase` runs a thousand on each database."""

from tests.casebase.rules import run


def test_random_sequences_follow_the_rules(places):
    run(places, sequences=3, steps=12)
