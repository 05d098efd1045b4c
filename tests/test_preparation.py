"""`prepare.py`: each of its tasks as a command would run it."""

import pytest

from data.errors import InputError
from tests.runs import run, small_files

SMALL_TEXT = ["text.epochs=2", "text.infer_epochs=2", "text.min_count=1"]


def test_all_leaves_nothing_to_compute_for_training(tmp_path, capsys):
    files = [*small_files(tmp_path), *SMALL_TEXT]
    run("prepare", tmp_path, files)
    assert "40 train, 12 val, 12 test questions" in capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.npy")}
    run("prepare", tmp_path, files)
    assert before and {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.npy")} == before


def test_neighbours_of_words_and_documents(tmp_path, capsys):
    files = [*small_files(tmp_path), *SMALL_TEXT, "task=neighbours", "neighbours=3"]
    run("prepare", tmp_path, [*files, "word=butter"])
    assert capsys.readouterr().out.count("nearest to") == 2
    run("prepare", tmp_path, [*files, "text_query=Whisk the lemon in the bowl"])
    assert capsys.readouterr().out.count("nearest to") == 1
    with pytest.raises(InputError, match="zucchini"):
        run("prepare", tmp_path, [*files, "word=zucchini"])


def test_check_prints_a_report_for_each_split(tmp_path, capsys):
    run("prepare", tmp_path, [*small_files(tmp_path), "task=check"])
    shown = capsys.readouterr().out
    assert all(f"{split}: " in shown for split in ("train", "val", "test"))


def test_wrong_tasks_are_explained(tmp_path):
    with pytest.raises(InputError, match="choose among all, download, check, neighbours"):
        run("prepare", tmp_path, [*small_files(tmp_path), "task=bake"])
    with pytest.raises(InputError, match=r"say where to with data\.root"):
        run("prepare", tmp_path, [*small_files(tmp_path), "task=download"])
    with pytest.raises(InputError, match="nothing to download"):
        run("prepare", tmp_path, ["task=download"])


def test_retrieval_is_prepared_and_checked(tmp_path, capsys):
    from tests.made_up_recipes import write_recipe1m
    from tests.test_retrieval_training import TINY

    write_recipe1m(tmp_path, {"train": 10, "val": 4, "test": 5})
    files = [*TINY, f"data.root={tmp_path}", f"cache={tmp_path / 'cache'}"]
    run("prepare", tmp_path / "out", files)
    assert "10 train, 4 val, 5 test pairs of recipe1m" in capsys.readouterr().out
    victim = sorted((tmp_path / "images" / "test").rglob("*.jpg"))[0]
    victim.write_bytes(b"no picture")
    run("prepare", tmp_path / "out", [*files, "task=check"])
    shown = " ".join(capsys.readouterr().out.split())
    assert victim.name in shown and "vocabulary" in shown.lower()
    with pytest.raises(InputError, match="layer1"):
        run("prepare", tmp_path / "out", [*TINY, f"data.root={tmp_path / 'nowhere'}", "task=check"])
    with pytest.raises(InputError, match="Doc2Vec"):
        run("prepare", tmp_path / "out", [*files, "task=neighbours"])
    with pytest.raises(InputError, match="nothing to check"):
        run("prepare", tmp_path / "out", ["data=wikibooks/retrieval", "model=im2recipe", "task=check"])
