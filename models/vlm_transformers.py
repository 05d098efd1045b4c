"""Language and vision–language models of Hugging Face transformers, in this process: batched, left-padded, greedy."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, groupby
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from data.errors import InputError
from data.food_images import load_image
from data.records import LETTERS
from models.backend import Capabilities, Reply, Request, Turn
from models.pretrained import (
    display_name,
    load_whole,
    loading,
    one_line,
    pick_device,
    pick_dtype,
    revision_of,
    source_of,
    transformers_library,
)

KINDS = ("auto", "image_text", "text")
SCORED = ("letter", "text_sum", "text_mean")
MAX_IMAGES = 4
_WINDOW = 8  # batches that are sorted by length together; more would spread the prompts of one photo
_TAIL = 64  # characters that decide how the next ones are cut into tokens
_NEGLIGIBLE = 1e-3  # of the letters' probability: what a spelling may at most add to be left out
_SPEAKERS = {"zh": ("用户：", "智能助手："), "en": ("Human: ", "Assistant: ")}


@dataclass(frozen=True, slots=True)
class _Row:
    """One request as the model reads it."""

    request: Request
    text: str
    images: tuple[str, ...]  # in the order in which the text shows them
    letters: "Continuations | None" = None

    @property
    def group(self) -> tuple[str, int, int]:
        """Rows of one batch agree in this."""
        return self.request.method, len(self.images), 0 if self.letters is None else self.letters.merged


@dataclass(frozen=True, slots=True)
class Continuations:
    """How a prompt may go on, as tokens: for each letter every spelling, the plain one first."""

    merged: int  # tokens at the end of the prompt that merge with what follows: they are cut off and scored along
    tail: tuple[int, ...]  # last tokens of the prompt before the cut
    tokens: tuple[tuple[tuple[int, ...], ...], ...]


class TransformersModel:
    """`model=vlm/transformers`: any causal language model, or image-text-to-text model, of transformers 5.

    Prompts go through the model's chat template, every turn as a turn. `continue` leaves the last turn open,
    `closed_turn` closes it and opens a new one, `inline` and `none` end in the opening of an assistant turn. A base
    model without a template reads the texts of the turns one after another, an assistant turn by the inline form.

    Decoding is greedy and nothing else: of the model's own generation settings only the tokens that end a text are
    kept, since sampling or a repetition penalty of theirs would bend answers that repeat a letter of the prompt.

    `method=logprob` scores the four letters by the model's next-token probabilities (spec of the benchmark, section 5).
    Their tokens are those which the tokenizer gives in the very context; all spellings (A, A after a space, （A, (A,
    and 图A where the answer starts a turn) are added up. Where the last token of the prompt merges with the letter,
    that token is taken back and scored along (flag `opening_merged`). A spelling of several tokens costs a pass of
    its own and is left out where it could add less than a thousandth to the probability of the letters.

    Args:
        path: a folder, or a name on the hub.
        revision: of the hub, such as a commit.
        kind_of_model: `image_text`, `text`, or `auto`: as the class of the config says.
        dtype: `auto` (bfloat16 on a GPU, float32 on a CPU) or its name.
        device: `auto`, `cpu`, `cuda`, `cuda:1`.
        device_map: as transformers takes it (`auto`: over all GPUs); needs accelerate.
        batch_size: requests at a time. It is no part of the identity: answers differ by rounding at most.
        max_new_tokens: longest answer.
        do_sample: draw answers at `temperature` in place of the likeliest; `seed` then decides.
        temperature: above 0, where answers are drawn.
        seed: of drawn answers; a batch draws by it and by its requests.
        image_longest_side: photos are made smaller to this many pixels before the model's own processor sees them.
        processor: further settings of the processor (min_pixels, max_pixels, do_image_splitting, size, ...).
        trust_remote_code: run Python code that comes with the model. It can do on this machine whatever you can.
        attn_implementation: eager, sdpa, flash_attention_2, ...
        chat_template: a template, a file with one, or `none` to treat the model as a base model.
        chat_template_kwargs: values that the template knows, such as {enable_thinking: false}.
        system: a system turn before prompts that have none.
        scored: `letter`; or the option texts in their place, by the sum or the mean of their tokens' log-probabilities
            (both are kept in the reply's `extra`).
        local_files_only: never ask the hub.
    """

    kind = "transformers"

    def __init__(
        self,
        path: str,
        revision: str | None = None,
        kind_of_model: str = "auto",
        dtype: str = "auto",
        device: str = "auto",
        device_map: Any = None,
        batch_size: int = 8,
        max_new_tokens: int = 16,
        do_sample: bool = False,
        temperature: float | None = None,
        seed: int = 0,
        image_longest_side: int = 1024,
        processor: Mapping[str, Any] | None = None,
        trust_remote_code: bool = False,
        attn_implementation: str | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        system: str | None = None,
        scored: str = "letter",
        local_files_only: bool = False,
    ) -> None:
        for key, value, allowed in (("kind_of_model", kind_of_model, KINDS), ("scored", scored, SCORED)):
            if value not in allowed:
                raise InputError(f"model.{key}={value}: choose {', '.join(allowed)}")
        numbers = {"batch_size": batch_size, "max_new_tokens": max_new_tokens, "image_longest_side": image_longest_side}
        for key, value in numbers.items():
            if not isinstance(value, int) or value < 1:
                raise InputError(f"model.{key}={value}: must be a whole number of at least 1")
        if do_sample and not (temperature and temperature > 0):
            raise InputError(f"model.temperature={temperature}: answers are drawn at a temperature above 0; set 0.2")
        self.path, self.revision, self.kind_of_model = str(path), revision, kind_of_model
        self.device, self.device_map = pick_device(device), device_map
        self.dtype = pick_dtype(dtype, self.device)
        self.batch_size, self.max_new_tokens, self.scored = batch_size, max_new_tokens, scored
        self.do_sample, self.temperature, self.seed = do_sample, temperature, seed
        self.image_longest_side, self.processor_settings = image_longest_side, dict(processor or {})
        self.attn_implementation, self.chat_template, self.system = attn_implementation, chat_template, system
        self.chat_template_kwargs = dict(chat_template_kwargs or {})
        self.hub: dict[str, Any] = {"local_files_only": local_files_only, "trust_remote_code": trust_remote_code}
        if revision is not None:
            self.hub["revision"] = revision
        self._reader: Any = None  # processor or tokenizer
        self._model: Any = None
        self._identity: dict[str, Any] | None = None
        self._capabilities: Capabilities | None = None
        self._known: dict[tuple[str, str, bool], Continuations] = {}

    # ------------------------------------------------------------------------------------------------ the contract

    def identity(self) -> dict[str, Any]:
        """See `Backend`. `revision` is the hub's commit, or a digest of the folder (`models.pretrained.revision_of`).

        The chat template enters by a digest. Batch size does not: a smaller one after an overflow of memory goes on
        with the same answers.
        """
        if self._identity is None:
            transformers = transformers_library()
            self._read()
            generation: dict[str, Any] = {"max_new_tokens": self.max_new_tokens, "do_sample": self.do_sample}
            if self.do_sample:
                generation |= {"temperature": self.temperature, "seed": self.seed}
            self._identity = {
                "backend": self.kind,
                "version": transformers.__version__,
                "torch": torch.__version__,
                "model": display_name(self.path),
                "revision": revision_of(self.path, self.revision),
                "kind_of_model": self.kind_of_model,
                "dtype": str(self.dtype).removeprefix("torch."),
                "device": self.device.type,
                "device_map": None if self.device_map is None else str(self.device_map),
                "attn_implementation": self.attn_implementation,
                "generation": generation,
                "scored": self.scored,
                "images": {"longest_side": self.image_longest_side, "processor": self.processor_settings},
                "chat_template": self._template and sha256(self._template.encode()).hexdigest()[:32],
                "chat_template_kwargs": self.chat_template_kwargs,
                "system": self.system,
            }
        return self._identity

    def capabilities(self) -> Capabilities:
        """What the chat template does with a begun answer, and with a text between two images, is tried out."""
        if self._capabilities is None:
            self._read()
            images = MAX_IMAGES if self.kind_of_model == "image_text" else 0
            self._capabilities = Capabilities(self._continues(), True, images, not images or self._interleaves())
        return self._capabilities

    def check(self, method: str) -> None:
        """InputError for `score`: this backend reads prompts."""
        if method not in ("generate", "logprob"):
            raise InputError(f"method {method}: model={self.kind} answers by generate or logprob")

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Reply]]:
        """See `Backend`. Requests of similar length share a batch; the photos of the next one are decoded meanwhile.

        A photo that cannot be read is the error of its requests. Whatever would happen to all requests alike is raised.

        Raises:
            InputError: the model cannot be loaded, or does not take such prompts; too little memory.
        """
        for request in requests:
            self.check(request.method)
        if not requests:
            return
        self._read()
        batches = self._batches(requests)
        first = next(batches)  # prompts that the model does not take are told before it is loaded
        self._load()
        pool = ThreadPoolExecutor(4, thread_name_prefix="photos")
        try:
            current: tuple[list[_Row], dict[str, Future[Any]]] | None = None
            for batch in chain([first], batches, [None]):
                photos = {path for row in batch or () for path in row.images}
                coming = {path: pool.submit(load_image, path, self.image_longest_side) for path in sorted(photos)}
                if current is not None:
                    yield from self._reply(*current)
                current = None if batch is None else (batch, coming)
        finally:
            pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Free the model's memory."""
        self._model = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # ----------------------------------------------------------------------------------------------------- loading

    def _read(self) -> None:
        """Config and processor: all but the weights."""
        if self._reader is not None:
            return
        transformers = transformers_library()
        source = source_of(self.path)
        with loading(self.path, "its config"):
            config = transformers.AutoConfig.from_pretrained(source, **self.hub)
        self.kind_of_model = self._decide(type(config))
        if self.kind_of_model == "text":
            if self.processor_settings:
                raise InputError("model.processor: the model is text-only and has no processor; leave it empty")
            with loading(self.path, "its tokenizer"):
                reader = tokenizer = transformers.AutoTokenizer.from_pretrained(source, **self.hub)
        else:
            with loading(self.path, "its processor"):
                reader = transformers.AutoProcessor.from_pretrained(source, **self.hub, **self.processor_settings)
                tokenizer = reader.tokenizer
            self._check_processor(reader)
        tokenizer.padding_side = "left"  # what is padded on the right is answered from padding
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        self._tokenizer, self._template = tokenizer, self._chosen_template(reader, tokenizer)
        self._reader = reader

    def _decide(self, config_class: type) -> str:
        from transformers.models.auto.modeling_auto import (
            MODEL_FOR_CAUSAL_LM_MAPPING,
            MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
        )

        if self.kind_of_model != "auto":
            return self.kind_of_model
        if config_class in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
            return "image_text"
        if config_class in MODEL_FOR_CAUSAL_LM_MAPPING:
            return "text"
        if self.hub["trust_remote_code"]:
            raise InputError(f"model.name={self.path}: is of its own kind; set model.kind_of_model=text or image_text")
        raise InputError(
            f"model.name={self.path}: a {config_class.__name__} generates no text; choose a causal language model or "
            "an image-text-to-text model (for CLIP and its like model=clip)"
        )

    def _check_processor(self, reader: Any) -> None:
        """A misspelt setting would be ignored without a word."""
        known = getattr(getattr(reader.image_processor, "valid_kwargs", None), "__annotations__", None)
        if known is None:
            return
        known = set(known) | set(getattr(reader, "get_attributes", list)()) | set(vars(reader))
        for key in self.processor_settings:
            if key not in known and not hasattr(reader.image_processor, key):
                raise InputError(
                    f"model.processor.{key}: {type(reader.image_processor).__name__} has no such setting; it has "
                    f"{', '.join(sorted(known & set(_COMMON)))}"
                )

    def _chosen_template(self, reader: Any, tokenizer: Any) -> str | None:
        given = self.chat_template
        if given == "none":
            return None
        if given is None:
            found = getattr(reader, "chat_template", None) or getattr(tokenizer, "chat_template", None)
            if isinstance(found, Mapping):
                found = found.get("default")
                if found is None:
                    raise InputError(
                        f"model.name={self.path}: has several chat templates; give model.chat_template=FILE"
                    )
            return found
        if "{%" in given or "{{" in given:
            return given
        try:
            return Path(given).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"model.chat_template={given}: cannot be read ({one_line(error)}); give a Jinja file, or none"
            ) from None

    def _load(self) -> None:
        """The weights."""
        if self._model is not None:
            return
        transformers = transformers_library()
        name = "AutoModelForCausalLM" if self.kind_of_model == "text" else "AutoModelForImageTextToText"
        options = dict(self.hub, dtype=self.dtype)
        if self.attn_implementation is not None:
            options["attn_implementation"] = self.attn_implementation
        model = load_whole(getattr(transformers, name), self.path, self.device_map, **options)
        if self.device_map is None:
            with loading(self.path, "the model"):
                model.to(self.device)
        own = model.generation_config
        ends = own.eos_token_id if own.eos_token_id is not None else self._tokenizer.eos_token_id
        self._ends = {ends} if isinstance(ends, int) else set(ends or ())
        padding = self._tokenizer.pad_token_id
        padding = padding if padding is not None else next(iter(self._ends), 0)
        model.generation_config = transformers.GenerationConfig(
            eos_token_id=sorted(self._ends) or None, pad_token_id=padding, bos_token_id=own.bos_token_id
        )
        text = model.config.get_text_config()
        self._longest = getattr(text, "max_position_embeddings", None)
        self._model = model

    # --------------------------------------------------------------------------------------------------- rendering

    def _continues(self) -> bool:
        if self._template is None:
            return False
        try:
            return self._rendered([Turn("user", ("?",)), Turn("assistant", ("probe (",))], "continue").endswith("be (")
        except InputError:
            return False

    def _interleaves(self) -> bool:
        """Whether an image between two texts stays between them."""
        try:
            text = self._rendered([Turn("user", ("first", 0, "second", 1, "third"))], "none")
        except InputError:
            return False
        places = [text.find(word) for word in ("first", "second", "third")]
        between = [text[places[0] + 5 : places[1]].strip(), text[places[1] + 6 : places[2]].strip()]
        return -1 not in places and all(between)

    def _rendered(self, turns: Sequence[Turn], prefill: str, language: str = "zh") -> str:
        """The prompt as text, images as the model's own placeholders."""
        if self.system and all(turn.role != "system" for turn in turns):
            turns = [Turn("system", (self.system,)), *turns]
        begun = turns[-1].role == "assistant"
        if self._template is None:
            return self._plain(turns, prefill, language)
        if begun and prefill not in ("continue", "closed_turn"):
            raise InputError(f"prefill {prefill}: the prompt ends in an assistant turn; use continue or closed_turn")
        messages: list[dict[str, Any]] = []
        for turn in turns:
            parts = [{"type": "image"} if isinstance(p, int) else {"type": "text", "text": p} for p in turn.parts]
            messages.append({"role": turn.role, "content": turn.text if self.kind_of_model == "text" else parts})
        end = {"continue_final_message": True} if begun and prefill == "continue" else {"add_generation_prompt": True}
        try:
            text = self._reader.apply_chat_template(
                messages, tokenize=False, chat_template=self._template, **end, **self.chat_template_kwargs
            )
        except Exception as error:  # Jinja's own, and whatever a template raises: turns that do not alternate, ...
            raise InputError(
                f"model.name={self.path}: its chat template refuses the prompt ({one_line(error)}); choose another "
                "prompts.variant or give model.chat_template="
            ) from None
        opening = turns[-1].text.rstrip()
        if begun and prefill == "continue" and not text.rstrip().endswith(opening):
            raise InputError(
                f"model.name={self.path}: its chat template does not leave the answer open; use asking.prefill=inline"
            )
        return text

    def _plain(self, turns: Sequence[Turn], prefill: str, language: str) -> str:
        """For a model without chat template: the texts one after another (inline form of the evaluation code)."""
        if turns[-1].role == "assistant" and prefill == "closed_turn":
            raise InputError(
                f"model.name={self.path}: has no chat template, so no turn to close; use asking.prefill=inline"
            )
        user, assistant = _SPEAKERS[language] if turns[-1].role == "assistant" else ("", "")
        pieces = []
        for i, turn in enumerate(turns):
            if turn.role == "system":
                pieces.append(turn.text + "\n")
                continue
            if turn.role == "assistant":
                pieces.append(assistant)
            elif not any(earlier.role == "user" for earlier in turns[:i]):
                pieces.append(user)
            pieces += [part if isinstance(part, str) else self._image_token() for part in turn.parts]
        return "".join(pieces)

    def _image_token(self) -> str:
        token = getattr(self._reader, "image_token", None)
        token = getattr(token, "content", token)
        if not isinstance(token, str):
            raise InputError(f"model.name={self.path}: has no chat template to say where images stand; give one")
        return token

    def _row(self, request: Request) -> _Row:
        places = [part for turn in request.turns for part in turn.parts if isinstance(part, int)]
        if not request.turns:
            raise InputError(f"model.name={self.path}: reads prompts, and the request has none")
        if places and self.kind_of_model == "text":
            raise InputError(
                f"model.name={self.path}: the model is text-only, and the prompt shows {len(places)} images; "
                "choose data=foodieqa/text or a vision-language model"
            )
        if len(places) > MAX_IMAGES:
            raise InputError(f"the prompt shows {len(places)} images, more than {MAX_IMAGES}")
        images = tuple(request.images[place] for place in places)
        text = self._rendered(request.turns, request.prefill, request.question.language)
        letters = None
        if request.method == "logprob":
            letters = self._letters(request, text) if self.scored == "letter" else self._options(request, text)
        return _Row(request, text, images, letters)

    def _batches(self, requests: Sequence[Request]) -> Iterator[list[_Row]]:
        window = self.batch_size * _WINDOW
        for start in range(0, len(requests), window):
            rows = [self._row(request) for request in requests[start : start + window]]
            rows.sort(key=lambda row: (row.group, len(row.text)))
            for _, group in groupby(rows, key=lambda row: row.group):
                alike = list(group)
                for i in range(0, len(alike), self.batch_size):
                    yield alike[i : i + self.batch_size]

    # ----------------------------------------------------------------------------------------------------- running

    def _reply(self, rows: Sequence[_Row], photos: Mapping[str, Future[Any]]) -> Iterator[tuple[Request, Reply]]:
        start, images, good, bad = perf_counter(), {}, [], []
        for row in rows:
            try:
                images |= {path: photos[path].result() for path in row.images}
                good.append(row)
            except InputError as error:
                bad.append((row.request, Reply(error=str(error))))
        yield from bad
        if not good:
            return
        method = good[0].request.method
        if method == "generate":
            replies = self._generate(good, images)
        elif self.scored == "letter":
            replies = self._letter_scores(good, images)
        else:
            replies = self._text_scores(good, images)
        seconds = (perf_counter() - start) / len(good)
        for row, reply in zip(good, replies, strict=True):
            yield row.request, Reply(**{**reply, "seconds": seconds})

    def _generate(self, rows: Sequence[_Row], images: Mapping[str, Any]) -> list[dict[str, Any]]:
        inputs = self._encode(rows, images)
        options: dict[str, Any] = {"max_new_tokens": self.max_new_tokens, "do_sample": self.do_sample}
        if self.do_sample:
            options |= {"temperature": float(self.temperature or 1.0), "top_k": 0, "top_p": 1.0}
            seed = sha256("".join([str(self.seed), *(row.request.key for row in rows)]).encode()).digest()
            with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
                torch.manual_seed(int.from_bytes(seed[:8], "big") >> 1)
                output = self._call(inputs, **options)
        else:
            output = self._call(inputs, **options)
        length, found = inputs["input_ids"].shape[1], []
        for i, tokens in enumerate(output.sequences[:, length:].tolist()):
            end = next((k for k, token in enumerate(tokens) if token in self._ends), None)
            said = tokens[:end]
            found.append(
                {
                    "response": self._tokenizer.decode(said, skip_special_tokens=True),
                    "finish_reason": "length" if end is None else "stop",
                    "usage": {
                        "prompt_tokens": int(inputs["attention_mask"][i].sum()),
                        "completion_tokens": len(said) + (end is not None),
                    },
                }
            )
        return found

    def _encode(self, rows: Sequence[_Row], images: Mapping[str, Any]) -> Any:
        """Tensors of a batch, on the device."""
        texts = [row.text for row in rows]
        options: dict[str, Any] = {"padding": True, "return_tensors": "pt"}
        bos = self._tokenizer.bos_token
        if self.kind_of_model == "text":
            if self._template is not None:
                options["add_special_tokens"] = False  # the template writes them
            found = self._tokenizer(texts, **options)
            inputs = {key: found[key] for key in ("input_ids", "attention_mask")}
        else:
            if bos is not None and texts[0].startswith(bos):
                options["add_special_tokens"] = False
            if rows[0].images:
                options["images"] = [[images[path] for path in row.images] for row in rows]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    inputs = dict(self._reader(text=texts, **options))
            except Exception as error:  # of the model's own processor
                raise InputError(
                    f"model.name={self.path}: its processor refuses a prompt with {len(rows[0].images)} images "
                    f"({one_line(error)}); choose another model or prompt"
                ) from error
        if not bool(inputs["attention_mask"][:, -1].all()):
            raise InputError(f"model.name={self.path}: its processor does not pad on the left; set model.batch_size=1")
        if self._longest and inputs["input_ids"].shape[1] + self.max_new_tokens > self._longest:
            raise InputError(
                f"model.name={self.path}: a prompt of {inputs['input_ids'].shape[1]} tokens is longer than the model's "
                f"{self._longest}; set a smaller model.image_longest_side or model.processor.max_pixels"
            )
        device, dtype = self._model.device, self._model.dtype
        return {
            key: value.to(device, dtype if value.is_floating_point() else None)
            if isinstance(value, torch.Tensor)
            else value
            for key, value in inputs.items()
        }

    def _call(self, inputs: Mapping[str, Any], **options: Any) -> Any:
        try:
            with torch.inference_mode(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._model.generate(**inputs, num_beams=1, return_dict_in_generate=True, **options)
        except torch.OutOfMemoryError:
            self.close()
            raise InputError(
                f"model.batch_size={self.batch_size}: does not fit into the memory of the GPU; set a smaller "
                "model.batch_size, then model.image_longest_side or model.dtype=bfloat16; answers so far are kept"
            ) from None
        except (ValueError, RuntimeError, IndexError, TypeError) as error:
            raise InputError(
                f"model.name={self.path}: the model fails on the prompts ({one_line(error)}); choose another prompt or "
                "model.processor settings"
            ) from error

    # --------------------------------------------------------------------------------------------- log-probabilities

    def _letters(self, request: Request, text: str) -> Continuations:
        """The four letters in all spellings that can follow the prompt."""
        begun = request.prefill == "continue" and request.turns[-1].role == "assistant"
        stands_open = begun or self._template is None
        before = ["", " "]
        if not stands_open and request.opening:
            before.append(request.opening)
        if not (stands_open and request.opening in ("（", "(")):
            before += [bracket for bracket in ("（", "(") if bracket not in before]
        key = (text[-_TAIL:], request.opening, stands_open)
        if key not in self._known:
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[key] = self._continuations(text, [[form + letter for form in before] for letter in LETTERS])
        return self._known[key]

    def _options(self, request: Request, text: str) -> Continuations:
        if not request.question.choices:
            raise InputError(f"model.scored={self.scored}: the options are images; set model.scored=letter")
        return self._continuations(text, [[choice.strip()] for choice in request.question.choices])

    def _continuations(self, text: str, candidates: Sequence[Sequence[str]]) -> Continuations:
        """Tokens by which each candidate follows the text; of each, the first form counts as the plain one.

        The text is cut into tokens with and without the candidate. Where all plain forms leave the tokens of the text
        as they are, forms that do not are dropped: they cannot follow. Else the tokens that change are taken back.
        """
        tail = text[-_TAIL:]
        flat = [tail, *(tail + form for forms in candidates for form in forms)]
        cut = iter([tuple(ids) for ids in self._tokenizer(flat, add_special_tokens=False)["input_ids"]])
        prompt = next(cut)
        every = [[next(cut) for _ in forms] for forms in candidates]
        shared = min(_common(prompt, forms[0]) for forms in every)
        tokens = []
        for letter, forms in zip(LETTERS, every, strict=True):
            if len(forms[0]) <= shared:
                raise InputError(f"model.name={self.path}: its tokenizer has no token for option {letter}")
            fits = [form[shared:] for form in forms if form[:shared] == prompt[:shared] and len(form) > shared]
            tokens.append(tuple(dict.fromkeys(fits)))
        places: dict[tuple[int, ...], int] = {}
        for i, forms in enumerate(tokens):
            for form in forms:
                if places.setdefault(form, i) != i:
                    raise InputError(
                        f"model.name={self.path}: its tokenizer makes the same tokens of options "
                        f"{LETTERS[places[form]]} and {LETTERS[i]}, which cannot be scored; use asking.method=generate"
                    )
        return Continuations(len(prompt) - shared, prompt[-4:], tuple(tokens))

    def _before_letters(self, rows: Sequence[_Row], images: Mapping[str, Any]) -> dict[str, Any]:
        """Tensors of a batch up to where the letters begin, on the device."""
        inputs = self._encode(rows, images)
        for row, ids in zip(rows, inputs["input_ids"].tolist(), strict=True):
            assert row.letters is not None
            seen = row.letters.tail
            if tuple(ids[len(ids) - len(seen) :]) != seen:
                raise InputError(
                    f"model.name={self.path}: its processor cuts the prompt into other tokens than its tokenizer, so "
                    "the letters have no certain token; use asking.method=generate"
                )
        merged, width = rows[0].group[2], inputs["input_ids"].shape[1]
        if not merged:
            return inputs
        # Every matrix of one column for each token: ids, masks, token types.
        return {k: v[:, :-merged] if v.ndim == 2 and v.shape[1] == width else v for k, v in inputs.items()}

    def _next(self, inputs: Mapping[str, Any], forced: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
        """Log-probabilities (B, V) float32 of the next token, and of those after each forced token.

        Row i is made to go on with `forced[i]`; entry t of the result is what the model expected after t of them.
        """
        width, steps = inputs["input_ids"].shape[1], max(map(len, forced))
        padding = self._model.generation_config.pad_token_id

        def allowed(row: int, ids: torch.Tensor) -> list[int]:
            place = len(ids) - width
            return [forced[row][place] if place < len(forced[row]) else padding]

        options: dict[str, Any] = {"prefix_allowed_tokens_fn": allowed} if steps else {}
        output = self._call(inputs, max_new_tokens=steps + 1, do_sample=False, output_logits=True, **options)
        return [logits.float().log_softmax(-1).cpu() for logits in output.logits]

    def _letter_scores(self, rows: Sequence[_Row], images: Mapping[str, Any]) -> list[dict[str, Any]]:
        inputs = self._before_letters(rows, images)
        first = self._next(inputs, [()] * len(rows))[0]
        found: list[list[list[float]]] = []  # row, letter, spelling
        later: list[list[tuple[int, ...]]] = []  # row, and what comes before the last token of longer spellings
        for i, row in enumerate(rows):
            assert row.letters is not None
            scores = [[float(first[i, form[0]]) for form in forms if len(form) == 1] for forms in row.letters.tokens]
            found.append(scores)
            floor = _log_sum([value for letter in scores for value in letter]) + math.log(_NEGLIGIBLE)
            plain = {forms[0][:-1] for forms in row.letters.tokens}
            before = {form[:-1] for forms in row.letters.tokens for form in forms if len(form) > 1}
            later.append([b for b in sorted(before) if b in plain or float(first[i, b[0]]) > floor])
        for k in range(max(map(len, later))):
            forced = [before[k] if k < len(before) else () for before in later]
            steps = self._next(inputs, forced)
            for i, (row, before) in enumerate(zip(rows, forced, strict=True)):
                assert row.letters is not None
                so_far = sum(float(steps[t][i, token]) for t, token in enumerate(before))
                for scores, forms in zip(found[i], row.letters.tokens, strict=True):
                    ends = [form[-1] for form in forms if before and form[:-1] == before]
                    scores += [so_far + float(steps[len(before)][i, end]) for end in ends]
        replies = []
        for i, row in enumerate(rows):
            totals = [_log_sum(values) for values in found[i]]
            replies.append(
                {
                    "scores": dict(zip(LETTERS, totals, strict=True)),
                    "letter_mass": math.exp(min(_log_sum(totals), 0.0)),
                    "flags": ("opening_merged",) if row.group[2] else (),
                    "extra": {"likeliest": self._tokenizer.decode([int(first[i].argmax())])},
                }
            )
        return replies

    def _text_scores(self, rows: Sequence[_Row], images: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Log-probabilities of the option texts, one pass for each option."""
        inputs = self._before_letters(rows, images)
        sums: list[list[float]] = [[] for _ in rows]
        means: list[list[float]] = [[] for _ in rows]
        for k in range(len(LETTERS)):
            texts = [row.letters.tokens[k][0] for row in rows if row.letters is not None]
            steps = self._next(inputs, [text[:-1] for text in texts])
            for i, text in enumerate(texts):
                sums[i].append(sum(float(steps[t][i, token]) for t, token in enumerate(text)))
                means[i].append(sums[i][-1] / len(text))
        return [
            {
                "scores": dict(zip(LETTERS, sums[i] if self.scored == "text_sum" else means[i], strict=True)),
                "flags": ("opening_merged",) if row.group[2] else (),
                "extra": {"text_sum": sums[i], "text_mean": means[i]},
            }
            for i, row in enumerate(rows)
        ]


# Settings of processors worth naming to somebody who misspelt one.
_COMMON = (
    "size",
    "crop_size",
    "min_pixels",
    "max_pixels",
    "do_image_splitting",
    "do_resize",
    "resample",
    "patch_size",
)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _log_sum(values: Sequence[float]) -> float:
    """Log of the sum of exponentials; of nothing, minus infinity."""
    most = max(values, default=-math.inf)
    return most if math.isinf(most) else most + math.log(sum(math.exp(value - most) for value in values))
