"""Embedding files: what is written is read, and what is wrong is said in one line."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import engine.embeddings
from data.errors import InputError
from engine.embeddings import read_embeddings, write_embeddings


def made_up(n: int = 5, dimension: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    ids = np.asarray([f"{i:04x}é" for i in rng.permutation(n)])
    image, recipe = rng.standard_normal((2, n, dimension)).astype(np.float32)
    return {"ids": ids, "image": image, "recipe": recipe}


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_what_is_written_is_read(tmp_path: Path, kind: type) -> None:
    arrays = made_up()
    image, recipe = arrays["image"].astype(kind), arrays["recipe"].astype(kind)
    write_embeddings(tmp_path / "a" / "e.npz", arrays["ids"], image, recipe, {"split": "test", "n": 5})
    assert [f.name for f in (tmp_path / "a").iterdir()] == ["e.npz"], "no half-written file is left"
    found = read_embeddings(tmp_path / "a" / "e.npz")
    assert found.ids.tolist() == arrays["ids"].tolist() and found.meta == {"split": "test", "n": 5}
    assert found.image.dtype == kind
    np.testing.assert_array_equal(found.image, image)
    np.testing.assert_array_equal(found.recipe, recipe)


def test_folders_are_mapped_not_read(tmp_path: Path) -> None:
    arrays = made_up()
    (tmp_path / "ids.txt").write_text("\n".join(arrays["ids"]) + "\n", encoding="utf-8")
    for name in ("image", "recipe"):
        np.save(tmp_path / f"{name}.npy", arrays[name])
    found = read_embeddings(tmp_path)
    assert isinstance(found.image, np.memmap) and found.ids.tolist() == arrays["ids"].tolist()
    np.testing.assert_array_equal(found.recipe, arrays["recipe"])


def test_files_of_others(tmp_path: Path) -> None:
    arrays = made_up()
    path = tmp_path / "e.npz"
    np.savez_compressed(path, **arrays, meta=np.asarray("{broken"), more=np.arange(3))
    assert read_embeddings(path).meta == {}
    np.savez(path, **(arrays | {"ids": np.asarray([name.encode() for name in arrays["ids"]])}))
    assert read_embeddings(path).ids.tolist() == arrays["ids"].tolist()
    np.savez(path, **(arrays | {"ids": np.arange(5)}))
    assert read_embeddings(path).ids.tolist() == list("01234")
    np.savez(path, **(arrays | {"image": np.asfortranarray(arrays["image"]), "meta": np.asarray("[1]")}))
    np.testing.assert_array_equal(read_embeddings(path).image, arrays["image"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": None}, r"has image, recipe, but no ids; it must hold `ids` .*np\.savez\("),
        ({"image": None, "recipe": None}, r"has ids, but no image and no recipe"),
        ({"ids": np.asarray(["a", 1, None, "d", "e"], dtype=object)}, r"`ids` holds Python objects.*np\.savez\("),
        ({"image": np.asarray([[None]], dtype=object)}, r"`image` holds Python objects"),
        ({"ids": np.zeros(5)}, r"`ids` is float64 \(5,\)"),
        ({"ids": np.asarray([[b"a"] * 5])}, r"`ids` is"),
        ({"ids": np.asarray([b"\xff"] * 5)}, r"not UTF-8"),
        ({"ids": np.asarray([*"abca", "b"])}, r"id 'a' is there 2 times \(2 repeats in all\)"),
        ({"ids": np.asarray(list("abcd"))}, r"5 rows in `image` for 4 ids"),
        ({"recipe": np.zeros((4, 3))}, r"4 rows in `recipe` for 5 ids"),
        ({"recipe": np.zeros((5, 4))}, r"images have 3 dimensions and recipes 4"),
        ({"image": np.zeros((5, 3), int)}, r"`image` is int64 \(5, 3\)"),
        ({"image": np.zeros((5, 3, 1))}, r"`image` is float64 \(5, 3, 1\)"),
        ({"image": np.zeros((5, 3), complex)}, r"`image` is complex128"),
        ({"ids": np.zeros(0, "U1"), "image": np.zeros((0, 3)), "recipe": np.zeros((0, 3))}, r"no pairs"),
        ({"image": np.zeros((5, 0)), "recipe": np.zeros((5, 0))}, r"no pairs"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, change: dict, message: str) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, **{k: v for k, v in (made_up() | change).items() if v is not None})
    with pytest.raises(InputError, match=message) as caught:
        read_embeddings(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_remedy_is_a_command_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arrays = made_up()
    exec(engine.embeddings.REMEDY.removeprefix("make it with: "), dict(arrays))
    assert read_embeddings(Path("embeddings.npz")).ids.tolist() == arrays["ids"].tolist()


def test_refuses_to_write_what_it_would_not_read(tmp_path: Path) -> None:
    arrays = made_up()
    with pytest.raises(InputError, match="id 'a' is there 5 times"):
        write_embeddings(tmp_path / "e.npz", ["a"] * 5, arrays["image"], arrays["recipe"], {})
    assert not list(tmp_path.iterdir())


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    with pytest.raises(InputError, match="no such file"):
        read_embeddings(path)
    np.savez(path, **made_up(50))
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:200], whole[:-30]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"not a whole \.npz file"):
            read_embeddings(path)
    for save in (np.savez, np.savez_compressed):
        save(path, **made_up(50))
        broken = bytearray(path.read_bytes())
        broken[broken.index(b"image.npy") + 300] ^= 255
        path.write_bytes(bytes(broken))
        with pytest.raises(InputError, match=r"not a whole \.npz file|cannot be read"):
            read_embeddings(path)


def test_headers_that_promise_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.npz"
    arrays = made_up()

    def store(header: dict) -> None:
        lying = io.BytesIO()
        np.lib.format.write_array_header_1_0(lying, header)
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("ids", "recipe"):
                plain = io.BytesIO()
                np.save(plain, arrays[name])
                archive.writestr(f"{name}.npy", plain.getvalue())
            archive.writestr("image.npy", lying.getvalue() + b"\0" * 60)

    for shape in ((10**12, 1024), (2**62, 2**62), (5, 4)):
        store({"descr": "<f4", "fortran_order": False, "shape": shape})
        with pytest.raises(InputError, match="does not fit its"):
            read_embeddings(path)
    store({"descr": "<f4", "fortran_order": False, "shape": (5, 3)})
    assert read_embeddings(path).image.shape == (5, 3)
    monkeypatch.setattr(engine.embeddings, "_HARMLESS", 10_000)
    np.savez_compressed(path, ids=np.asarray(["a"]), image=np.zeros((1, 99_999)), recipe=np.zeros((1, 99_999)))
    with pytest.raises(InputError, match="embeddings do not compress like that"):
        read_embeddings(path)


def test_folders_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no ids.txt and no image.npy and no recipe.npy"):
        read_embeddings(tmp_path)
    arrays = made_up()
    (tmp_path / "ids.txt").write_bytes(b"\xff\n")
    np.save(tmp_path / "image.npy", arrays["image"])
    np.save(tmp_path / "recipe.npy", arrays["recipe"])
    with pytest.raises(InputError, match="not UTF-8"):
        read_embeddings(tmp_path)
    (tmp_path / "ids.txt").write_text("\n".join(arrays["ids"]), encoding="utf-8")
    (tmp_path / "image.npy").write_bytes((tmp_path / "image.npy").read_bytes()[:-8])
    with pytest.raises(InputError, match=r"image.npy: no array of floats"):
        read_embeddings(tmp_path)
    np.save(tmp_path / "image.npy", np.asarray([None]), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects"):
        read_embeddings(tmp_path)
