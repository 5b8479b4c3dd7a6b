from bayespatch.study import __main__ as command


def test_arguments_reach_the_study(monkeypatch, capsys):
    seen = {}
    monkeypatch.setattr(command, "run", lambda **options: seen.update(options) or "docs/study/README.md")
    arguments = ["--out", "there", "--quick", "--only", "knn", "trees", "--readmission", "file.csv", "--seed", "4"]
    assert command.main(arguments) == 0
    assert seen == dict(out="there", quick=True, only=["knn", "trees"], readmission="file.csv", seed=4, again=False)
    assert capsys.readouterr().out == "docs/study/README.md\n"


def test_a_refusal_is_one_line_and_a_status(tmp_path, capsys):
    assert command.main(["--out", str(tmp_path), "--only", "nothing"]) == 2
    assert "only='nothing' is not known" in capsys.readouterr().err
