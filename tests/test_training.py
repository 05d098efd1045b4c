"""The commands on small made-up files: what they write, fall back on, and refuse."""

import json

import numpy as np
import pytest
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from data.errors import InputError
from data.recipeqa import read_questions
from data.records import TASKS
from engine.launch import unknown_setting
from tests.made_up import image_names, made_up_questions, write_file, write_images
from tests.runs import SMALL, run, small_files


def _visual(folder, task):
    """Files of a visual task with their pictures; random weights stand in for a download."""
    overrides = small_files(folder, task, 24)
    names = []
    for split in ("train", "val", "test"):
        names += image_names(json.loads((folder / f"{split}.json").read_text())["data"])
    write_images(folder / "images-qa" / "train" / "images-qa", names)
    return [*overrides, f"data.images={folder}", "features=efficientnet_lite0", "trainer.max_epochs=2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    files = small_files(folder)
    run("train", folder / "run", [*files, *SMALL])
    return folder, files


def test_a_run_folder_holds_everything(trained):
    folder, _ = trained
    names = {p.name for p in (folder / "run").iterdir()}
    assert names >= {"config.yaml", "provenance.json", "metrics.json", "predictions.jsonl", "results.md", "curves.png"}
    assert {p.name for p in (folder / "run" / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    rows = [json.loads(line) for line in (folder / "run" / "predictions.jsonl").read_text().splitlines()]
    questions, _ = read_questions(folder / "test.json")
    assert [row["qid"] for row in rows] == [q.qid for q in questions]
    assert [row["answer"] for row in rows] == [q.answer for q in questions]
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    share = np.mean([row["prediction"] == row["answer"] for row in rows])
    assert metrics["test/accuracy"] == pytest.approx(share) and metrics["tasks"]["textual_cloze"]["n"] == 12
    low, high = metrics["tasks"]["textual_cloze"]["interval"]
    assert low < metrics["test/accuracy"] < high
    data = json.loads((folder / "run" / "provenance.json").read_text())["data"]
    assert set(data["files"]) == {"train", "val", "test"} and len(data["text_digest"]) == 64


def test_evaluate_repeats_the_test_of_the_training(trained, tmp_path):
    folder, _ = trained
    ckpt = f"ckpt_path={folder}/run/checkpoints/best.ckpt"
    run("evaluate", tmp_path, [ckpt, "sanity=false", "logger=[]", f"cache={tmp_path}/cache"])
    assert (tmp_path / "predictions.jsonl").read_text() == (folder / "run" / "predictions.jsonl").read_text()


def test_a_checkpoint_scores_a_new_file_by_itself(trained, tmp_path):
    folder, _ = trained
    write_file(tmp_path / "new.json", made_up_questions("textual_cloze", 9, seed=77))
    away = folder / "train.json"
    away.rename(folder / "moved.json")
    try:
        overrides = [f"ckpt_path={folder}/run/checkpoints/best.ckpt", f"data.test_file={tmp_path}/new.json"]
        overrides += ["data.train_file=null", "data.val_file=null", "sanity=false", "logger=[]", f"cache={tmp_path}/c"]
        run("evaluate", tmp_path / "e", overrides)
    finally:
        (folder / "moved.json").rename(away)
    assert len((tmp_path / "e" / "predictions.jsonl").read_text().splitlines()) == 9


def test_scoring_one_question_equals_scoring_it_among_all(trained, tmp_path):
    folder, _ = trained
    rows = [json.loads(line) for line in (folder / "run" / "predictions.jsonl").read_text().splitlines()]
    record = json.loads((folder / "test.json").read_text())["data"][5]
    (tmp_path / "one.json").write_text(json.dumps(record))
    overrides = [
        f"ckpt_path={folder}/run/checkpoints/best.ckpt",
        f"question={tmp_path}/one.json",
        f"cache={tmp_path}/c",
    ]
    run("evaluate", tmp_path, overrides)
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["scores"] == pytest.approx(rows[5]["scores"], abs=1e-6)
    assert answer["prediction"] == rows[5]["prediction"]
    assert np.allclose(np.sum(answer["attention"], 1), 1) and len(answer["attention"]) == 4


def test_export_in_the_order_of_the_file_agrees_with_the_official_arithmetic(trained, tmp_path):
    from data.recipeqa import official_score

    folder, _ = trained
    overrides = [f"ckpt_path={folder}/run/checkpoints/best.ckpt", "export=official", "sanity=false", "logger=[]"]
    run("evaluate", tmp_path, overrides)
    truth = json.loads((folder / "test.json").read_text())["data"]
    score = official_score(truth, json.loads((tmp_path / "official.json").read_text()))
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert score["textual_cloze"] == pytest.approx(metrics["test/accuracy"])


@pytest.mark.parametrize("task", [TASKS[1], *(pytest.param(t, marks=pytest.mark.slow) for t in TASKS[2:])])
def test_visual_tasks_train_and_renaming_all_images_changes_no_score(task, tmp_path):
    """Names and their order are the leak of this data set: they must reach nothing."""
    overrides = _visual(tmp_path / "a", task)
    run("train", tmp_path / "run_a", [*overrides, *SMALL])

    import hashlib
    import shutil

    def renamed(name):
        stem = hashlib.sha256(name.encode()).hexdigest()[:12]
        return f"x{stem}_{int(stem[:4], 16)}_{int(stem[4:8], 16)}.jpg"

    (tmp_path / "b" / "flat").mkdir(parents=True)
    for path in (tmp_path / "a" / "images-qa" / "train" / "images-qa").iterdir():
        shutil.copy(path, tmp_path / "b" / "flat" / renamed(path.name))

    def walk(value):
        if isinstance(value, list):
            return [walk(v) for v in value]
        return renamed(value) if isinstance(value, str) and value.endswith(".jpg") else value

    for split in ("train", "val", "test"):
        records = json.loads((tmp_path / "a" / f"{split}.json").read_text())["data"]
        write_file(tmp_path / "b" / f"{split}.json", [{k: walk(v) for k, v in r.items()} for r in records])
    moved = [o.replace(str(tmp_path / "a"), str(tmp_path / "b")) for o in overrides if "data.images" not in o]
    run("train", tmp_path / "run_b", [*moved, f"data.images={tmp_path}/b/flat", *SMALL])
    read = [
        [json.loads(line)["scores"] for line in (tmp_path / f"run_{x}" / "predictions.jsonl").read_text().splitlines()]
        for x in "ab"
    ]
    assert np.allclose(*read, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("reducer", ["linear", "autoencoder"])
def test_other_reducers_train_and_score_again_from_the_checkpoint(reducer, tmp_path):
    overrides = [*_visual(tmp_path, "visual_cloze"), f"reducer={reducer}"]
    run("train", tmp_path / "run", [*overrides, *SMALL])
    run("evaluate", tmp_path / "e", [f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt", "sanity=false", "logger=[]"])
    assert (tmp_path / "e" / "predictions.jsonl").read_text() == (tmp_path / "run" / "predictions.jsonl").read_text()


def test_all_tasks_together(tmp_path):
    records = {split: [] for split in ("train", "val", "test")}
    for seed, split in enumerate(records):
        for task in TASKS:
            records[split] += made_up_questions(task, 12 if split == "train" else 5, seed=seed, split=split)
        write_file(tmp_path / f"{split}.json", records[split])
    names = [name for part in records.values() for name in image_names(part)]
    write_images(tmp_path / "images", names)
    overrides = [
        "data=recipeqa/all",
        f"data.root={tmp_path}",
        f"data.images={tmp_path}/images",
        "data.modality=multimodal",
    ]
    overrides += ["features=efficientnet_lite0", f"cache={tmp_path}/cache"]
    run("train", tmp_path / "run", [*overrides, *SMALL, "sanity=true"])
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert set(metrics["tasks"]) == set(TASKS)
    accuracies = [metrics["tasks"][task]["accuracy"] for task in TASKS]
    assert metrics["mean_over_tasks"] == pytest.approx(np.mean(accuracies))
    systems = {row["system"] for row in metrics["tasks"]["visual_cloze"]["table"]}
    assert {"chance", "Hasty Student", "least_frequent_choice"} <= systems
    assert any("PRN" in system for system in systems)
    assert not any(row.get("same_questions") for row in metrics["tasks"]["visual_cloze"]["table"])
    history = json.loads((tmp_path / "run" / "history.jsonl").read_text().splitlines()[0])
    assert all(f"val/{task}/accuracy" in history for task in TASKS)


def test_validation_out_of_the_training_recipes_and_test_on_validation(tmp_path):
    write_file(tmp_path / "train.json", made_up_questions("textual_cloze", 60, seed=1, per_recipe=3, split="train"))
    overrides = ["data=recipeqa/textual_cloze", f"data.train_file={tmp_path}/train.json", f"cache={tmp_path}/cache"]
    run("train", tmp_path / "run", [*overrides, *SMALL])
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert any("tested on the validation questions" in note for note in metrics["notes"])
    assert any("15% of the training recipes" in note for note in metrics["notes"])
    tested = {json.loads(x)["qid"] for x in (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()}
    recipes = {}
    for q in read_questions(tmp_path / "train.json")[0]:
        recipes.setdefault(q.recipe_id, set()).add(q.qid)
    assert tested and all(qids <= tested or not qids & tested for qids in recipes.values())
    assert metrics["tasks"]["textual_cloze"]["interval_kind"].endswith("clustered by recipe")


def test_a_limit_of_steps_inside_an_epoch_still_leaves_a_checkpoint(tmp_path):
    run("train", tmp_path / "run", [*small_files(tmp_path), *SMALL, "+trainer.max_steps=2"])
    assert torch.load(tmp_path / "run" / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] == 2


def test_shared_recipes_are_said(tmp_path):
    files = small_files(tmp_path)
    write_file(tmp_path / "test.json", made_up_questions("textual_cloze", 12, seed=0, split="test"))
    run("train", tmp_path / "run", [*files, *SMALL])
    notes = json.loads((tmp_path / "run" / "metrics.json").read_text())["notes"]
    assert any("also occur in training" in note for note in notes)


def test_bad_records_are_counted_as_wrong_when_skipped(trained, tmp_path):
    folder, _ = trained
    records = made_up_questions("textual_cloze", 12, seed=2, split="test")
    records[3]["choice_list"].append("a fifth")
    del records[7]["context"]
    write_file(tmp_path / "test.json", records)
    base = [f"ckpt_path={folder}/run/checkpoints/best.ckpt", f"data.test_file={tmp_path}/test.json", "logger=[]"]
    with pytest.raises(InputError, match=records[3]["qid"]) as error:
        run("evaluate", tmp_path / "e", [*base, "sanity=false"])
    assert "test.json" in str(error.value) and "\n" not in str(error.value)
    run("evaluate", tmp_path / "e", [*base, "sanity=false", "data.on_bad_record=skip"])
    metrics = json.loads((tmp_path / "e" / "metrics.json").read_text())
    rows = (tmp_path / "e" / "predictions.jsonl").read_text().splitlines()
    right = sum(json.loads(row)["prediction"] == json.loads(row)["answer"] for row in rows)
    assert len(rows) == 10 and metrics["tasks"]["textual_cloze"]["n"] == 12
    assert metrics["test/accuracy"] == pytest.approx(right / 12)
    assert any("2 bad records" in note for note in metrics["notes"])
    skipped = json.loads((tmp_path / "e" / "provenance.json").read_text())["data"]["skipped"]["test"]
    assert len(skipped) == 2 and records[3]["qid"] in skipped[0]


@pytest.mark.slow
def test_overfitting_sixteen_questions(tmp_path):
    files = small_files(tmp_path)
    overrides = [
        "trainer=overfit",
        "trainer.max_epochs=200",
        "trainer.accelerator=cpu",
        "trainer.enable_progress_bar=false",
    ]
    overrides += ["text.min_count=1", "text.epochs=20", "sanity=false", "logger=[]"]
    overrides += ["model.net.hidden_size=64", "model.optimizer.lr=0.003"]
    run("train", tmp_path / "run", [*files, *overrides])
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test/accuracy"] == 1.0


def test_hasty_student_and_rules_need_no_training(tmp_path):
    files = small_files(tmp_path)
    small = ["text.epochs=2", "text.infer_epochs=2", "text.min_count=1", "logger=[]"]
    for model in ("hasty_student", "sanity/tfidf_context", "sanity/chance"):
        run("evaluate", tmp_path / "e", [*files, *small, f"model={model}", "sanity=false"])
        metrics = json.loads((tmp_path / "e" / "metrics.json").read_text())
        assert metrics["tasks"]["textual_cloze"]["n"] == 12
    assert metrics["test/accuracy"] == 0.25, "ties share the point"
    with pytest.raises(InputError, match="needs no training"):
        run("train", tmp_path / "t", [*files, *small, "model=hasty_student"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.test_file=nowhere.json"], "data.test_file=nowhere.json"),
        (["data.modality=audio"], "data.modality=audio"),
        (["data.val_fraction=2"], "data.val_fraction=2"),
        (["data.batch_size=0"], "data.batch_size=0"),
        (["data.batch_size=2.5"], "data.batch_size=2.5"),
        (["data.limit=-1"], "data.limit=-1"),
        (["data.images_per_step=two"], "data.images_per_step=two"),
        (["seed=-1"], "seed=-1"),
        (["model.optimizer.lr=-1"], "model.optimizer"),
        (["trainer.max_epochs=0"], "not one step was trained"),
        (["data.tasks=[textual]"], "unknown task 'textual'"),
        (["trainer.precision=bf16-mixed"], "GPU only"),
        (["ckpt_path=nowhere.ckpt"], "nowhere.ckpt"),
    ],
)
def test_wrong_settings_are_one_line(overrides, message, tmp_path):
    if torch.cuda.is_available() and "precision" in overrides[0]:
        pytest.skip("half precision works on this machine")
    with pytest.raises(Exception) as error:
        run("train", tmp_path / "run", [*small_files(tmp_path), *SMALL, *overrides])
    found = error.value
    while not isinstance(found, InputError):
        assert found.__cause__ is not None, found
        found = found.__cause__
    assert message in str(found) and "\n" not in str(found)


def test_a_moved_run_resumes_and_keeps_its_best(tmp_path):
    files = small_files(tmp_path)
    run("train", tmp_path / "a", [*files, *SMALL])
    best = torch.load(tmp_path / "a" / "checkpoints" / "best.ckpt", weights_only=True)
    (tmp_path / "a").rename(tmp_path / "b")
    # A rate of nothing cannot improve on the best, so the best of before must stay.
    frozen = ["model.optimizer.lr=0.001", "trainer.max_epochs=4", "callbacks.best.mode=max"]
    run("train", tmp_path / "b", [f"ckpt_path={tmp_path}/b/checkpoints/last.ckpt", *frozen])
    assert not (tmp_path / "a").exists()
    after = torch.load(tmp_path / "b" / "checkpoints" / "best.ckpt", weights_only=True)
    rows = [json.loads(line) for line in (tmp_path / "b" / "history.jsonl").read_text().splitlines()]
    best_epoch = max(rows, key=lambda row: (row["val/accuracy"], -row["epoch"]))["epoch"]
    assert len(rows) == 4 and after["epoch"] == best_epoch
    if best_epoch < 3:
        assert after["epoch"] == best["epoch"]


def test_a_run_that_stopped_early_has_nothing_left_to_do(tmp_path):
    files = small_files(tmp_path)
    stopping = ["model.optimizer.lr=0.0", "callbacks.early_stopping.patience=1", "trainer.max_epochs=9"]
    run("train", tmp_path / "r", [*files, *SMALL, *stopping])
    history = (tmp_path / "r" / "history.jsonl").read_text()
    assert len(history.splitlines()) == 2
    run("train", tmp_path / "r", [f"ckpt_path={tmp_path}/r/checkpoints/last.ckpt"])
    assert (tmp_path / "r" / "history.jsonl").read_text() == history


def test_double_precision_scores_the_same_from_its_checkpoint(tmp_path):
    files = small_files(tmp_path)
    run("train", tmp_path / "r", [*files, *SMALL, "trainer.precision=64-true"])
    run("evaluate", tmp_path / "e", [f"ckpt_path={tmp_path}/r/checkpoints/best.ckpt", "sanity=false", "logger=[]"])
    assert (tmp_path / "e" / "predictions.jsonl").read_text() == (tmp_path / "r" / "predictions.jsonl").read_text()
    (tmp_path / "one.json").write_text(json.dumps(json.loads((tmp_path / "test.json").read_text())["data"][0]))
    run("evaluate", tmp_path / "q", [f"ckpt_path={tmp_path}/r/checkpoints/best.ckpt", f"question={tmp_path}/one.json"])
    first = json.loads((tmp_path / "r" / "predictions.jsonl").read_text().splitlines()[0])
    assert json.loads((tmp_path / "q" / "answer.json").read_text())["scores"] == pytest.approx(first["scores"])


def test_attention_is_shown_beside_what_the_reader_read(trained, tmp_path, capsys):
    folder, _ = trained
    record = json.loads((folder / "test.json").read_text())["data"][0]
    (tmp_path / "one.json").write_text(json.dumps(record))
    run("evaluate", tmp_path, [f"ckpt_path={folder}/run/checkpoints/best.ckpt", f"question={tmp_path}/one.json"])
    shown = capsys.readouterr().out
    assert all(f"{i}. {step['body'][:10]}" in shown for i, step in enumerate(record["context"], 1))
    assert ".jpg" not in shown, "a text-only reader saw no image"
    assert "q1: " in shown and "@placeholder" in shown


def test_a_resume_refuses_what_would_not_go_on_as_before(trained, tmp_path):
    folder, _ = trained
    last = f"ckpt_path={folder}/run/checkpoints/last.ckpt"
    for override in ("model.optimizer.lr=0.5", "data.batch_size=20", "seed=5", "text.epochs=9"):
        with pytest.raises(InputError, match="fixed by the checkpoint"):
            run("train", tmp_path, [last, override])
    with pytest.raises(InputError, match="was trained on textual_cloze"):
        run("evaluate", tmp_path, [last, "data=wikibooks/visual_cloze", "logger=[]"])


def test_official_export_answers_unreadable_records_wrongly(trained, tmp_path):
    folder, _ = trained
    records = made_up_questions("textual_cloze", 12, seed=2, split="test")
    records[4]["answer"] = 7
    write_file(tmp_path / "test.json", records)
    overrides = [f"ckpt_path={folder}/run/checkpoints/best.ckpt", f"data.test_file={tmp_path}/test.json", "logger=[]"]
    run("evaluate", tmp_path, [*overrides, "sanity=false", "data.on_bad_record=skip", "export=official"])
    assert json.loads((tmp_path / "official.json").read_text())["textual_cloze"][4] == -1


def test_checkpoints_of_other_models_and_vocabularies_are_refused(trained, tmp_path):
    folder, _ = trained
    last = f"{folder}/run/checkpoints/last.ckpt"
    with pytest.raises(InputError, match=r"model\.net\.hidden_size: fixed by the checkpoint"):
        run("evaluate", tmp_path, [f"ckpt_path={last}", "model.net.hidden_size=8", "logger=[]"])
    with pytest.raises(InputError, match="a checkpoint of model=impatient_reader, not of model=hasty_student"):
        run("evaluate", tmp_path, [f"ckpt_path={last}", "model=hasty_student", "logger=[]"])
    with pytest.raises(InputError, match="another vocabulary"):
        other = small_files(tmp_path)
        write_file(tmp_path / "train.json", made_up_questions("textual_cloze", 40, seed=55, split="train"))
        run("train", tmp_path / "r", [*other, *SMALL, f"ckpt_path={last}"])
    checkpoint = torch.load(last, weights_only=True)
    checkpoint["ChoiceData"]["text"]["words"][0] = "changed"
    torch.save(checkpoint, tmp_path / "vocabulary.ckpt")
    with pytest.raises(InputError, match="vocabulary"):
        run("evaluate", tmp_path, [f"ckpt_path={tmp_path}/vocabulary.ckpt", "logger=[]"])
    checkpoint = torch.load(last, weights_only=True)
    del checkpoint["state_dict"]["net.document_encoder.stack.0.weight_ih_l0"]
    torch.save(checkpoint, tmp_path / "weights.ckpt")
    with pytest.raises(InputError, match="weights are of another model"):
        run("evaluate", tmp_path, [f"ckpt_path={tmp_path}/weights.ckpt", "logger=[]"])
    checkpoint["config"]["model"]["loss"]["_target_"] = "os.system"
    torch.save(checkpoint, tmp_path / "evil.ckpt")
    with pytest.raises(InputError, match=r"os\.system"):
        run("evaluate", tmp_path, [f"ckpt_path={tmp_path}/evil.ckpt", "logger=[]"])


def test_an_untrained_reader_and_missing_files_are_explained(tmp_path):
    with pytest.raises(InputError, match="must be trained"):
        run("evaluate", tmp_path, [*small_files(tmp_path), "logger=[]"])
    with pytest.raises(InputError, match="task=download"):
        run("train", tmp_path / "r", ["data=recipeqa/textual_cloze", *SMALL])
    with pytest.raises(InputError, match="holds none of"):
        (tmp_path / "empty").mkdir()
        run("train", tmp_path / "r", ["data=recipeqa/textual_cloze", f"data.root={tmp_path}/empty", *SMALL])
    with pytest.raises(InputError, match="no pictures; give their folder"):
        run("train", tmp_path / "r", [*small_files(tmp_path, "visual_cloze"), "features=efficientnet_lite0", *SMALL])


def test_a_setting_left_from_another_loss_is_named_with_its_key():
    cfg = OmegaConf.create({"loss": {"_target_": "models.losses.CosineHinge", "margin": 1.5, "temperature": 1.0}})
    with pytest.raises(InstantiationException) as error:
        instantiate(cfg)
    assert str(unknown_setting(error.value)) == (
        "model.loss.temperature: CosineHinge takes no such setting; correct its name, or leave it out with "
        "~model.loss.temperature"
    )
    assert unknown_setting(ValueError("x")) is None
