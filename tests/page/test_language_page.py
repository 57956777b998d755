"""The page for language models: continuations, pairs of sentences as a task scores them, and what is refused."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from commands import Shell
from processes import ForkServer, until
from refusals import refused
from served import HOSTILE, Page, chromium, page_of, serving
from small_models import tiny
from tiny_language import PAIRS, tokenizer, write_language_model, write_pairs, write_texts

import srnet
from srnet.audit.run import task_of
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.bias import BiasSpec
from srnet.models.generation import generate
from srnet.page.language import WORDS, LanguageView, _ends_of, require_language
from srnet.page.options import PageOptions
from srnet.page.run import _load_language_view, _load_view, _open_decoders
from srnet.pruners.magnitude import OneShot
from srnet.recipes.tasks import read_task
from srnet.tasks.answers.pairs import PAIRS as KIND
from srnet.tasks.base import TaskSpec
from srnet.training.language import prompt_tokens

JSON = {"Content-Type": "application/json"}
BEGINNING = "the nurse is"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("language")


@pytest.fixture(scope="module")
def decoders(folder: Path) -> list[str]:
    return [write_language_model(folder / name, "llama", seed) for seed, name in enumerate(("one", "two"))]


@pytest.fixture(scope="module")
def stereotypes(folder: Path) -> TaskSpec:
    write_pairs(folder)
    write_texts(folder, 4)
    return read_task(
        {"answer": "pairs", "name": "made-up", "train": "pairs.csv", "dev": "pairs.csv", "neutral": "texts.txt"},
        "task",
        folder,
    )


def view_of(models: list[str], task: TaskSpec | None = None, **options: Any) -> LanguageView:
    engine = Engine()
    opened: Any = models if task is not None else _open_decoders(models, engine)
    return _load_language_view(opened, task, engine, PageOptions(**options))


@pytest.fixture(scope="module")
def view(decoders: list[str], stereotypes: TaskSpec) -> LanguageView:
    return view_of(decoders, stereotypes, new_tokens=6)


@pytest.fixture(scope="module")
def page(view: LanguageView) -> Iterator[Page]:
    with serving(page_of(view)) as served:
        yield served


def ask(page: Page, path: str, body: Any, method: str = "POST", **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    try:
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, sent, {**JSON, **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


# --- what it answers -----------------------------------------------------------------------------------------------


def test_a_prompt_is_continued_by_both(page: Page, view: LanguageView) -> None:
    status, found = ask(page, "/api/prompt", {"text": BEGINNING})
    assert status == 200
    assert found["answers"][0]["text"] != found["answers"][1]["text"]
    for answer, model in zip(found["answers"], view.models, strict=True):
        ids = prompt_tokens(BEGINNING, model.tokenizer)
        assert ids[0] == model.tokenizer.bos_token_id, "as the texts of a task begin"
        batch = model.random_batch(1, len(ids))
        batch["input_ids"][0] = torch.from_numpy(ids)
        ends = _ends_of(model)
        assert ends == (2, 3), "what the checkpoint's settings and its tokenizer name"
        new = generate(model, batch, 6, ends)[0].tolist()
        ended = new[-1] in ends
        words = [model.tokenizer.convert_ids_to_tokens(each) for each in new]
        special = set(model.tokenizer.all_special_tokens)
        assert answer["text"].split() == [each for each in words if each not in special]
        assert answer["tokens"] == len(new)
        assert answer["ends"] == ("text" if ended else "")


def test_pairs_are_scored_as_in_the_task(page: Page, view: LanguageView) -> None:
    """Alone on the page, a pair has the same log-probabilities as in a batch of the task's rows."""
    assert view.task is not None
    dev = view.task.dev
    whole = [model.outputs(view.task, dev, ()).reshape(len(dev), 3, 2) for model in view.models]
    decoded = [KIND.decode(dev, each.reshape(len(dev), 6)) for each in whole]
    for row in range(len(dev)):
        status, found = ask(page, "/api/pair", {"text_a": dev.text_a[row], "text_b": dev.text_b[row], "split": "dev"})
        assert status == 200
        assert found["scoring"] == "mean", "as in a task with unrelated sentences"
        for answer, sums, columns in zip(found["answers"], whole, decoded, strict=True):
            for sentence, (total, tokens) in zip(answer["sentences"], sums[row], strict=False):
                assert sentence["sum"] == pytest.approx(total, abs=1e-4)
                assert sentence["tokens"] == tokens
                assert sentence["mean"] == pytest.approx(total / tokens, abs=1e-4)
            assert (answer["likelier"]["mean"] == 0) == bool(columns[row, 2])
            assert answer["leads"]["sum"] == pytest.approx(sums[row, 0, 0] - sums[row, 1, 0], abs=1e-4)


def test_equal_sentences_are_equally_likely(view: LanguageView) -> None:
    found = view.look("the nurse ran", "the nurse ran")
    assert [each["likelier"] for each in found["answers"]] == [{"sum": None, "mean": None}] * 2


def test_the_pairs_on_which_models_disagree(page: Page, view: LanguageView) -> None:
    status, state = ask(page, "/api/state", None, "GET")
    assert status == 200
    assert (state["language"], state["task"], state["continues"], state["new_tokens"]) == (True, "made-up", True, 6)
    (split,) = state["comparison"]["splits"]
    assert (split["name"], split["rows"]) == ("dev", len(PAIRS)), "neutral text has no pairs"
    assert view.task is not None
    dev = view.task.dev
    likes = [KIND.decode(dev, each.outputs(view.task, dev, ()))[:, 2] for each in view.models]
    differ = {dev.text_a[row] for row in np.flatnonzero(likes[0] != likes[1])}
    rows = [ask(page, f"/api/row?position={n}", None, "GET")[1] for n in range(split["disagreements"])]
    assert {row["text_a"] for row in rows} == differ
    assert differ
    leads = [[each["leads"]["mean"] for each in view.look(r["text_a"], r["text_b"], "dev")["answers"]] for r in rows]
    gaps = [abs(a - b) for a, b in leads]
    assert gaps == sorted(gaps, reverse=True)
    assert ask(page, f"/api/row?position={len(PAIRS) - 1}&which=all", None, "GET")[0] == 200


def test_unknown_words_are_named(view: LanguageView) -> None:
    assert view.look("the nurse slept", "the nurse flew")["answers"][0]["unknown"] == ["flew"]
    assert view.proceed("the Zebra", Event())["answers"][1]["unknown"] == ["Zebra"]


def test_any_text_has_an_answer(page: Page) -> None:
    for text in ("🙂", "word " * 500, "<script>alert(1)</script>", "\ud800 lone", "\0 x", "a\r\nb", HOSTILE):
        status, found = ask(page, "/api/pair", {"text_a": text, "text_b": "the nurse"})
        assert status == 200, (text[:10], found)
        assert all(np.isfinite(each["leads"]["sum"]) for each in found["answers"])
        assert ask(page, "/api/prompt", {"text": text})[0] == (400 if text.startswith("word ") else 200), text[:10]
    assert ask(page, "/api/prompt", {"text": ""})[0] == 200, "a text begins with a token of its own"


def test_a_continuation_says_why_it_ends(decoders: list[str]) -> None:
    """Of 32 positions: a prompt of 3 words and the first token leave 28."""
    view = view_of(decoders, new_tokens=1000)
    for answer in view.proceed(BEGINNING, Event())["answers"]:
        assert answer["ends"] in ("text", "room")
        assert answer["ends"] == "text" or answer["tokens"] == 28
    stop = Event()
    stop.set()
    assert [each["tokens"] for each in view.proceed(BEGINNING, stop)["answers"]] == [1, 1], "nobody waits for more"


def test_decoders_need_no_task(decoders: list[str], engine: Engine) -> None:
    opened = _open_decoders(decoders, engine, 16)
    assert opened is not None
    view = _load_language_view(opened, None, engine, PageOptions())
    assert (view.state()["task"], view.scoring) == (None, "sum")
    assert [each.max_length for each in view.models] == [16, 16]
    rows = view.compared()
    rows.run()
    assert (rows.state()["splits"], rows.row(0)) == ([], None)
    assert view.look("a man ran", "a woman ran")["answers"][0]["sentences"][0]["tokens"] == 3


def test_a_task_of_texts_has_no_pairs_to_step_through(folder: Path, decoders: list[str]) -> None:
    path = str(write_texts(folder))
    view = view_of(decoders, read_task({"answer": "text", "name": "t", "train": path, "dev": path}, "task"))
    assert view.compared().state()["splits"] == []
    assert view.look("a man ran", "a woman ran")["scoring"] == "sum"


def test_a_masked_language_model_scores_pairs_and_continues_nothing(
    folder: Path, decoders: list[str], stereotypes: TaskSpec
) -> None:
    bert = write_language_model(folder / "bert", "bert")
    view = view_of([decoders[0], bert], stereotypes)
    assert "masked" in view.state()["models"][1]["note"]
    assert view.proceed(BEGINNING, Event())["answers"][1] is None
    assert view.task is not None
    expected = view.models[1].outputs(view.task, view.task.dev, ())[0]
    found = view.look(*PAIRS[0][:2], "dev")["answers"][1]["sentences"]
    assert [each["sum"] for each in found] == pytest.approx(expected[[0, 2]], abs=1e-4)


def test_keys_of_the_store_know_their_task(decoders: list[str], stereotypes: TaskSpec, engine: Engine) -> None:
    key = srnet.prune(stereotypes, OneShot(0.5), backbone=decoders[0], engine=engine).key
    assert task_of(key, engine) == stereotypes
    view = _load_language_view([key, decoders[0]], stereotypes, engine, PageOptions())
    a, b = view.look(*PAIRS[0][:2])["answers"]
    assert a["leads"] != b["leads"]
    assert _open_decoders([decoders[0], key], engine) is not None


# --- what it refuses -----------------------------------------------------------------------------------------------


def test_wrong_requests_are_one_plain_line(page: Page) -> None:
    many = "the " * (WORDS + 1)
    cases: list[tuple[int, str, Any]] = [
        *((400, "/api/prompt", body) for body in (b"", b"[]", {"text": 1}, {}, {"text": "a", "file": "/etc/passwd"})),
        (413, "/api/prompt", {"text": many}),
        (413, "/api/pair", {"text_a": many, "text_b": "a"}),
        (400, "/api/prompt", {"text": "the " * 40}),
        *((400, "/api/pair", {"text_a": a, "text_b": b}) for a, b in (("", ""), ("a", " "), ("", "a"))),
        (400, "/api/pair", {"text_a": "a", "text_b": "b", "split": "train"}),
    ]
    for wanted, path, body in cases:
        status, answer = ask(page, path, body)
        assert (status, list(answer)) == (wanted, ["error"]), (path, str(body)[:60], answer)
        assert len(answer["error"]) < 200
    assert "reads 32" in ask(page, "/api/prompt", {"text": "the " * 40})[1]["error"]
    assert ask(page, "/api/prompt", {"text": "a"}, Host="evil.example")[0] == 403
    assert ask(page, "/api/prompt", {"text": "a"}, Origin="http://evil.example")[0] == 403


def test_a_page_of_classifiers_continues_nothing() -> None:
    with serving(page_of()) as page:
        assert ask(page, "/api/prompt", {"text": "a"})[0] == 404


def test_what_is_no_language_model(
    folder: Path,
    decoders: list[str],
    stereotypes: TaskSpec,
    tiny_backbone: str,
    tiny_task: TaskSpec,
    engine: Engine,
) -> None:
    with refused("scripted", "language model"):
        require_language(type("Own", (), {"name": "scripted"})())
    tiny("llama").save_pretrained(folder / "classifier")
    tokenizer().save_pretrained(folder / "classifier")
    with refused("language-model head", "ForSequenceClassification"):
        view_of([decoders[0], str(folder / "classifier")], stereotypes)
    assert _open_decoders([decoders[0], tiny_backbone], engine) is None
    with refused("LlamaForCausalLM"):
        _load_view([decoders[0], decoders[1]], tiny_task, engine)
    with refused("shortcut"):
        _load_language_view(decoders, stereotypes, engine, PageOptions(), BiasSpec("length"))
    with refused("classifiers"):
        view_of(decoders, stereotypes, labels_are=(("LABEL_0", "yes"),))


def test_mistakes_on_the_command_line_are_one_line(shell: Shell, decoders: list[str], tiny_backbone: str) -> None:
    assert "--task" in shell.fails("page", decoders[0], tiny_backbone)
    assert "--new-tokens" in shell.fails("page", *decoders, "--new-tokens", "0")
    assert "shortcut" in shell.fails("page", *decoders, "--shortcut", "length", "--port", "0")


def test_a_continuation_ends_when_its_browser_leaves(decoders: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(decoders)
    seen: list[Event] = []

    def slow(self: LanguageView, prompt: str, stop: Event) -> dict[str, Any]:
        seen.append(stop)
        stop.wait(20)
        return {"answers": []}

    monkeypatch.setattr(LanguageView, "proceed", slow)
    with serving(page_of(view)) as page:
        body = b'{"text": "the"}'
        head = f"POST /api/prompt HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nContent-Type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", page.port), timeout=10) as wire:
            wire.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            until = time.monotonic() + 10
            while not seen and time.monotonic() < until:
                time.sleep(0.02)
            assert not seen[0].is_set()
        assert seen[0].wait(10)
        assert ask(page, "/api/pair", {"text_a": "a man", "text_b": "a woman"})[0] == 200


def test_the_command_opens_decoders_and_ctrl_c_ends_it(
    decoders: list[str], fork_server: ForkServer, tmp_path: Path
) -> None:
    """Even while a continuation of many tokens is written."""
    for name in decoders:
        config = json.loads((Path(name) / "config.json").read_text())
        shutil.copytree(name, tmp_path / Path(name).name)
        long = json.dumps(config | {"max_position_embeddings": 100_000, "eos_token_id": 1})
        (tmp_path / Path(name).name / "config.json").write_text(long)
        (tmp_path / Path(name).name / "generation_config.json").unlink()
    command = fork_server.start(tmp_path, "page", "one", "two", "--new-tokens", 1000, "--port", 0, "-q")
    line = until(lambda: "\n" in command.printed and command.printed, "an address", command)
    port = int(line.split()[1].rpartition(":")[2])
    body = json.dumps({"text": BEGINNING}).encode()
    head = f"POST /api/prompt HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
        wire.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.3)
        command.interrupt()
        assert (command.code, command.printed, command.said) == (0, f"{line}closed\n", "")


# --- in a browser --------------------------------------------------------------------------------------------------


def test_typing_in_a_browser(page: Page) -> None:
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 420, "height": 800})
        problems: list[str] = []
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("console", lambda said: "Content Security" in said.text and problems.append(said.text))
        tab.on("request", lambda sent: sent.url.startswith((page.address, "data:")) or problems.append(sent.url))
        tab.goto(page.address)
        tab.get_by_text("The first sentence is the stereotype").wait_for()
        assert tab.locator("#text-a").input_value() == page.rows.row(0)["text_a"]  # type: ignore[index]
        tab.locator("#cards article").nth(1).wait_for()  # they are fetched after the text of the row is shown
        assert tab.locator("#cards article").count() == 2
        tab.fill("#prompt", BEGINNING)
        tab.locator("#continued article").nth(1).wait_for()
        expected = page.view.proceed(BEGINNING, Event())["answers"]
        assert tab.locator(".written b").all_text_contents() == [each["text"] for each in expected]
        tab.fill("#text-a", "a man ran")
        tab.fill("#text-b", HOSTILE)
        tab.get_by_text("Edited (ID dev").wait_for()
        tab.wait_for_selector("#results[aria-busy=false]")
        found = page.view.look("a man ran", HOSTILE)["answers"]
        shown = tab.locator("#cards .answer").all_inner_texts()
        assert shown == [["First sentence", "Second sentence"][each["likelier"]["mean"]] for each in found]
        cells = tab.locator("#cards td").all_inner_texts()
        assert cells[1] == f"{found[0]['sentences'][0]['sum']:.3f}".replace("-", "\N{MINUS SIGN}")
        tab.fill("#prompt", HOSTILE)
        tab.locator(".given", has_text="<img").first.wait_for()
        assert tab.title() == "made-up: two models side by side"
        tab.fill("#prompt", "the " * 40)
        tab.get_by_text("Not computed: the prompt has 41 tokens").wait_for()
        tab.fill("#text-a", "")
        tab.get_by_text("Type two sentences, or step through the pairs.").wait_for()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 420
        assert (
            tab.evaluate("[...document.querySelectorAll('textarea')].filter((each) => !each.labels.length).length") == 0
        )
        assert problems == []


def test_a_page_without_a_task_in_a_browser(decoders: list[str]) -> None:
    with serving(page_of(view_of(decoders))) as page, chromium() as browser:
        tab = browser.new_page()
        tab.goto(page.address)
        tab.get_by_text("Type two sentences.").wait_for()
        assert tab.title() == "Two language models side by side"
        assert tab.locator("#rows").is_hidden()
        tab.fill("#text-a", "a man ran")
        tab.fill("#text-b", "a woman ran")
        tab.locator("#cards article").nth(1).wait_for()
        assert tab.locator("#alert").is_hidden()
