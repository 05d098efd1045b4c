"""The released LMDBs, made up small: fields, classes from 0, keys, and what is refused."""

import os
import pickle

import lmdb
import numpy as np
import pytest

from data.errors import InputError
from data.recipe1m_lmdb import LmdbRecipes, find_lmdbs


def value(n: int = 3, rows=(7, 2, 5, 1), number: int = 4, **changes) -> dict:
    ingredients = np.zeros(20, np.uint16)
    ingredients[: len(rows)] = rows
    sentences = np.arange(n * 1024, dtype=np.float32).reshape(n, 1024) / 1000
    pictures = [{"id": f"{n}{k}ab.jpg", "url": "https://example.org"} for k in range(2)]
    return {"ingrs": ingredients, "intrs": sentences, "classes": number, "imgs": pictures} | changes


def write(path, values: dict, protocol: int = 2, raw: dict | None = None) -> None:
    with lmdb.open(str(path), map_size=1 << 24) as base, base.begin(write=True) as transaction:
        for name, entry in values.items():
            transaction.put(name.encode("latin1"), pickle.dumps(entry, protocol))
        for name, content in (raw or {}).items():
            transaction.put(name.encode("latin1"), content)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_fields(tmp_path, protocol):
    values = {"0a": value(3), "ff": value(1, rows=(1,), number=1), "c0": value(19, number=np.int64(1048))}
    write(tmp_path / "val_lmdb", values, protocol)
    (tmp_path / "val_keys.pkl").write_bytes(pickle.dumps(["ff", "0a", "c0"], protocol))
    base = LmdbRecipes(tmp_path / "val_lmdb", tmp_path / "val_keys.pkl")
    assert base.ids == ["ff", "0a", "c0"] and len(base) == 3
    assert [r.recipe_id for r in base] == base.ids
    record = base.record("0a")
    assert record.ingredients.tolist() == [7, 2, 5, 1] and record.ingredients.dtype == np.int64
    np.testing.assert_array_equal(record.sentences, values["0a"]["intrs"])
    assert record.sentences.dtype == np.float32 and record.images == ("30ab.jpg", "31ab.jpg")
    assert [r.class_id for r in base] == [0, 3, 1047]  # stored from 1
    again = pickle.loads(pickle.dumps(base))
    assert again.ids == base.ids and again.record("ff").sentences.shape == (1, 1024)
    assert LmdbRecipes(tmp_path / "val_lmdb").ids == ["0a", "c0", "ff"]
    with pytest.raises(InputError, match="has no recipe 'ee'"):
        base.record("ee")
    with pytest.raises(InputError, match="has no recipe"):
        base.record("日本")


def test_records_of_python_2(tmp_path):
    """A record as Python 2 with NumPy 1.11 pickled it: byte strings, old module names."""
    ingredients, sentence = np.arange(1, 21, dtype="<u2"), np.ones((1, 1024), "<f4")

    def array(a: np.ndarray, shape: bytes) -> bytes:
        code, content = a.dtype.str[1:].encode(), a.tobytes()
        head = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01bt\x52(K\x01" + shape
        kind = (
            b"cnumpy\ndtype\n(U\x02" + code + b"K\x00K\x01t\x52(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        )
        return head + kind + b"\x89T" + len(content).to_bytes(4, "little") + content + b"tb"

    content = b"\x80\x02}(U\x05ingrs" + array(ingredients, b"K\x14\x85")
    content += b"U\x05intrs" + array(sentence, b"K\x01M\x00\x04\x86")
    content += b"U\x07classesK\x02U\x04imgs]}U\x02idU\x08abcd.jpgsau."
    write(tmp_path / "base", {}, raw={"a": content})
    record = LmdbRecipes(tmp_path / "base").record("a")
    assert record.ingredients.tolist() == list(range(1, 21)) and record.class_id == 1
    assert record.images == ("abcd.jpg",) and (record.sentences == 1).all()


class Gadget:
    def __reduce__(self):
        return os.system, ("touch /tmp/never",)


BAD = {
    "no table": [1, 2],
    "missing": {"ingrs": np.zeros(20, np.uint16)},
    "ingredients": value(ingrs=[1, 2]),
    "float ingredients": value(ingrs=np.zeros(20)),
    "flat sentences": value(intrs=np.zeros(1024, np.float32)),
    "narrow sentences": value(intrs=np.zeros((2, 512), np.float32)),
    "nan": value(intrs=np.full((2, 1024), np.nan, np.float32)),
    "class 0": value(number=0),
    "class text": value(classes="4"),
    "pictures": value(imgs=["a.jpg"]),
    "gadget": value(imgs=Gadget()),
    "object array": value(ingrs=np.array([None])),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("protocol", [2, 4])
def test_records_that_are_not_as_released(tmp_path, name, protocol):
    write(tmp_path / "base", {"aa": BAD[name]}, protocol)
    with pytest.raises(InputError, match="recipe aa: ") as error:
        LmdbRecipes(tmp_path / "base").record("aa")
    assert "\n" not in str(error.value) and not os.path.exists("/tmp/never")


def test_damaged_records(tmp_path):
    content = pickle.dumps(value(), 2)
    raw = {str(k): content[:k] for k in (0, 1, 50, len(content) - 1)}
    raw["shape"] = content.replace(b"K\x14\x85", b"K\x15\x85")  # 21 numbers stated, 20 there
    raw["claims"] = b"\x80\x02T\xff\xff\xff\x7fabc."  # a string of 2 GiB that is not there
    assert raw["shape"] != content
    write(tmp_path / "base", {}, raw={name or "x": entry for name, entry in raw.items()})
    base = LmdbRecipes(tmp_path / "base")
    for name in raw:
        with pytest.raises(InputError, match=f"recipe {name}: "):
            base.record(name)


def test_databases_and_keys_that_are_none(tmp_path):
    with pytest.raises(InputError, match="no such database"):
        LmdbRecipes(tmp_path / "absent")
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "data.mdb").write_bytes(b"junk" * 5000)
    with pytest.raises(InputError, match="is no LMDB"):
        LmdbRecipes(tmp_path / "junk")
    write(tmp_path / "base", {"aa": value()})
    keys = tmp_path / "keys.pkl"
    with pytest.raises(InputError, match="cannot be read"):
        LmdbRecipes(tmp_path / "base", keys)
    for content, words in (
        (b"", "no plain pickle"),
        (pickle.dumps(Gadget()), "no plain pickle"),
        (pickle.dumps({}), "no list of keys"),
        (pickle.dumps([]), "no list of keys"),
        (pickle.dumps(["aa", 3]), "key 2 is no recipe id"),
        (pickle.dumps(["aa", "aa"]), "a key twice"),
        (pickle.dumps(["aa", "bb", "cc"]), r"2 of 3 keys are not in .* \(first: bb\)"),
    ):
        keys.write_bytes(content)
        with pytest.raises(InputError, match=words):
            LmdbRecipes(tmp_path / "base", keys)


def test_databases_of_a_folder(tmp_path):
    assert find_lmdbs(tmp_path) == {}
    write(tmp_path / "train_lmdb", {"aa": value(), "bb": value()})
    write(tmp_path / "test_lmdb", {"cc": value()})
    (tmp_path / "train_keys.pkl").write_bytes(pickle.dumps(["bb", "aa"]))
    assert {split: base.ids for split, base in find_lmdbs(tmp_path).items()} == {"train": ["bb", "aa"], "test": ["cc"]}


def test_a_forked_process_reads_on(tmp_path):
    write(tmp_path / "base", {"aa": value()})
    base = LmdbRecipes(tmp_path / "base")
    assert base.record("aa").class_id == 3
    pid = os.fork()
    if not pid:
        os._exit(base.record("aa").class_id)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
