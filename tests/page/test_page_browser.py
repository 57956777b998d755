"""The page in a real browser: typing, stepping, a narrow window, hostile texts, two tabs, a server that stops."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from audited import NLI, YES_NO, Scripted, split_of, task_of
from served import HOSTILE, PEOPLE, Page, by_order, chromium, page_of, serving, view_of

from srnet.bias.model import fit_bias_scorer
from srnet.models.model import match
from srnet.page.pair import PairView, Shortcut, TrainingRows
from srnet.tasks.base import Task

NARROW = {"width": 420, "height": 800}
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def served() -> Iterator[Page]:
    with serving(page_of()) as page:
        yield page


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens an address in a tab; at the end no script may have failed and no other address been asked."""
    windows, problems = [], []

    def open_tab(address: str, **settings: Any) -> Any:
        windows.append(browser.new_context(**settings))
        tab = windows[-1].new_page()
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("request", lambda sent: sent.url.startswith((address, "data:")) or problems.append(sent.url))
        tab.on("console", lambda said: "Content Security" in said.text and problems.append(said.text))
        tab.goto(address)
        tab.locator("#cards article").nth(2).wait_for()
        return tab

    yield open_tab
    for window in windows:
        window.close()
    assert problems == []


def answers(tab: Any) -> list[str]:
    """What A, B and the shortcut answer, once nothing is being computed."""
    tab.wait_for_selector("#results[aria-busy=false]")
    return [text.removesuffix("right").removesuffix("wrong") for text in tab.locator(".answer").all_inner_texts()]


def wait_for_value(tab: Any, selector: str, value: str) -> None:
    from playwright.sync_api import expect  # not `wait_for_function`: the page's policy forbids eval

    expect(tab.locator(selector)).to_have_value(value)


def type_pair(tab: Any, text_a: str, text_b: str) -> list[str]:
    tab.fill("#text-a", text_a)
    tab.fill("#text-b", text_b)
    return answers(tab)


def test_typing_a_pair_shows_two_answers(served: Page, open_page: Open) -> None:
    tab = open_page(served.address)
    tab.fill("#text-a", "the judge saw the baker")
    tab.locator("#text-b").fill("")
    tab.locator("#text-b").press_sequentially("the baker saw the judge")
    assert answers(tab) == ["entailment", "neutral", "entailment"]
    assert tab.locator("#summary").inner_text() == (
        "A answers “entailment”, B answers “neutral”. The shortcut alone says “entailment”, as A does."
    )
    expected = served.view.look("the judge saw the baker", "the baker saw the judge")
    shown = [f"{100 * value:.1f} %" for each in expected["answers"] for value in each["probabilities"]]
    assert tab.locator(".bars .line span:last-child").all_inner_texts()[:6] == shown
    assert tab.locator("#marked-b mark").all_inner_texts() == ["the", "baker", "saw", "the", "judge"]
    assert tab.locator("#share").inner_text().startswith("5 of 5 words")
    assert "the judge saw the baker" in tab.locator("#nearest li").first.inner_text()
    assert tab.locator(".judged").count() == 0, "nobody knows the label of a typed pair"


def test_stepping_through_disagreements(served: Page, open_page: Open) -> None:
    tab = open_page(served.address)
    tab.get_by_text("The models disagree on 5 of 12 rows").wait_for()
    assert tab.locator("#text-a").input_value() == served.rows.row(0)["text_a"]
    assert tab.locator(".judged").all_inner_texts() == ["wrong", "right"]
    for number in range(1, 5):
        tab.keyboard.press("n" if number % 2 else "ArrowRight")
        wait_for_value(tab, "#position", str(number + 1))
        assert tab.locator("#text-a").input_value() == served.rows.row(number)["text_a"]
    tab.keyboard.press("n")
    assert tab.locator("#next").get_attribute("aria-disabled") == "true"
    tab.keyboard.press("p")
    wait_for_value(tab, "#position", "4")
    tab.get_by_label("Split").select_option("dev")
    tab.get_by_text("None", exact=True).wait_for()
    tab.get_by_label("Rows", exact=True).select_option("all")
    tab.get_by_text("Number of 6", exact=True).wait_for()
    wait_for_value(tab, "#text-a", f"the {PEOPLE[0]} slept")
    tab.fill("#position", "3")
    tab.keyboard.press("Enter")
    wait_for_value(tab, "#text-a", f"the {PEOPLE[2]} slept")
    assert answers(tab)[:2] == ["entailment", "entailment"]


def test_a_training_row_can_be_picked_and_edited(served: Page, open_page: Open) -> None:
    tab = open_page(served.address)
    nearest = tab.locator("#nearest li").first
    texts = nearest.locator("p").all_inner_texts()
    nearest.get_by_role("button").click()
    tab.get_by_text("training data, train-").first.wait_for()
    assert [tab.locator(f"#text-{letter}").input_value() for letter in "ab"] == texts
    assert answers(tab)
    tab.locator("#text-b").press_sequentially("!")
    tab.get_by_text("the label of the row may no longer hold").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_window_has_nothing_to_scroll_sideways(served: Page, open_page: Open, scheme: str) -> None:
    tab = open_page(served.address, viewport=NARROW, color_scheme=scheme)
    width = "document.documentElement.scrollWidth"
    assert tab.evaluate(width) <= NARROW["width"]
    type_pair(tab, "unbroken" * 300, "the doctor " * 30)
    assert tab.evaluate(width) <= NARROW["width"]
    back = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 29)"}[scheme]
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == back


def test_long_hostile_and_empty_texts(served: Page, open_page: Open) -> None:
    tab = open_page(served.address)
    assert len(type_pair(tab, "doctor " * 10_000, "pilot " * 10_000)) == 3
    assert "and 9,500 more words" in tab.locator("#marked-a").inner_text()
    assert len(type_pair(tab, HOSTILE, "<script>document.title = 'broken'</script> 🙂👩‍👩‍👧")) == 3
    assert tab.locator("#marked-a").inner_text() == HOSTILE
    assert tab.title() == "made-up: two models side by side"
    assert len(type_pair(tab, "the doctor", "")) == 3
    tab.get_by_text("The second text has no words.").wait_for()
    tab.fill("#text-a", "")
    tab.get_by_text("Type a pair, or step through the rows.").wait_for()
    assert tab.locator("#cards article").count() == 0
    tab.fill("#text-a", "doctor " * 10_001)
    tab.get_by_text("Not computed: the first text has 10,001 words; the page takes 10,000.").wait_for()
    type_pair(tab, "the doctor", "slept")
    assert tab.locator("#alert").is_hidden()


def test_only_the_last_text_is_shown(open_page: Open) -> None:
    """A model that is slow on one text: its answer, which comes late, is not shown for another text."""

    def slow(a: str, b: str) -> tuple[float, ...]:
        time.sleep(0.5 if "wait" in a else 0.0)
        return by_order(a, b)

    with serving(page_of(view_of(Scripted(slow, NLI), Scripted(by_order, NLI)))) as page:
        tab = open_page(page.address)
        tab.fill("#text-a", "wait for it")
        tab.wait_for_timeout(200)
        assert tab.locator("#results").get_attribute("aria-busy") == "true"
        after_key = """async () => {
            document.getElementById("text-b").dispatchEvent(new Event("input"));
            await new Promise((resolve) => setTimeout(resolve, 30));
            return document.getElementById("results").getAttribute("aria-busy");
        }"""
        assert tab.evaluate(after_key) == "true", "the request that was cancelled ends, and the next is to come"
        assert type_pair(tab, "the pilot slept", "the pilot slept")[:2] == ["entailment", "entailment"]


def test_two_tabs_at_once(served: Page, open_page: Open) -> None:
    one, two = open_page(served.address), open_page(served.address)
    for tab, text in ((one, "the judge slept"), (two, "a pilot danced")):
        tab.fill("#text-a", text)
        tab.fill("#text-b", "the judge slept")
    assert answers(one)[:2] == ["entailment", "entailment"]
    assert answers(two)[:2] == ["neutral", "neutral"]


def test_a_server_that_stops_and_comes_back(open_page: Open) -> None:
    with serving(page_of()) as page:
        tab = open_page(page.address)
        page.stop()
        tab.fill("#text-a", "the judge")
        tab.get_by_text("The server does not answer.").wait_for()
        assert tab.locator("#cards article").count() == 0
        with serving(page_of(), page.port):
            tab.locator("#alert").wait_for(state="hidden")
            assert len(answers(tab)) == 3, "the page has loaded again"


def test_everything_is_reached_by_keyboard(served: Page, open_page: Open) -> None:
    tab = open_page(served.address)
    focused, seen = "document.activeElement.id || document.activeElement.textContent", []
    for _ in range(9):
        tab.keyboard.press("Tab")
        seen.append(tab.evaluate(focused))
    assert seen[:7] == ["which", "split", "previous", "position", "next", "text-a", "text-b"]
    assert seen[7] == "Use this pair"
    tab.keyboard.press("Enter")
    tab.locator("#text-a:focus").wait_for()
    tab.keyboard.press("ControlOrMeta+A")
    tab.keyboard.type("n is typed here")
    assert tab.locator("#text-a").input_value() == "n is typed here"
    assert len(answers(tab)) == 3
    tab.keyboard.press("Escape")
    tab.keyboard.press("n")
    wait_for_value(tab, "#position", "2")
    unlabelled = (
        "[...document.querySelectorAll('textarea, select, input')].filter((each) => !each.labels.length).length"
    )
    assert tab.evaluate(unlabelled) == 0


def test_a_comparison_that_is_not_done_yet(open_page: Open) -> None:
    page = page_of(compare=False)
    with serving(page):
        tab = open_page(page.address)
        tab.get_by_text("Both models still read all rows (0 %)").wait_for()
        assert tab.locator("#text-a").input_value() == page.rows.row(0, all_rows=True)["text_a"]
        page.rows.start()
        tab.get_by_text("The models disagree on 5 of 12 rows").wait_for()
        wait_for_value(tab, "#position", "1")


class Reader:
    """A tokenizer that knows four words and no sign."""

    unk_token_id = 7

    def __call__(self, pieces: list[str], **options: Any) -> dict[str, list[list[int]]]:
        return {"input_ids": [[1] if piece in ("the", "judge", "saw", "slept") else [7] for piece in pieces]}


def single_task() -> Task:
    """Texts without a second one, in which a word says the label."""
    texts = [(f"{'good' if row % 2 else 'bad'} film number {row}", "") for row in range(20)]
    labels = [row % 2 for row in range(20)]
    return replace(task_of(split_of(texts[:6], labels[:6])), train=split_of(texts, labels, "train"), shortcut="words")


def reading(model: Scripted) -> Any:
    return SimpleNamespace(name=model.name, labels=model.labels, logits=model.logits, tokenizer=Reader())


def test_words_that_a_model_does_not_know_are_marked(open_page: Open) -> None:
    with serving(page_of(view_of(reading(Scripted(by_order, NLI)), Scripted(by_order, NLI)))) as page:
        tab = open_page(page.address)
        type_pair(tab, "the judge saw Zürich", "the judge 🙂")
        assert tab.locator("#marked-a .unknown").all_inner_texts() == ["Zürich"]
        assert tab.locator("#marked-b .unknown").all_inner_texts() == ["🙂"]
        assert tab.locator("#legend").inner_text().startswith("word: unknown to the tokenizer of A;")
        type_pair(tab, "the judge saw", "the judge")
        assert tab.locator("#legend").is_hidden()
        type_pair(tab, "quite other words", "unheard of")
        assert tab.locator("#nearest li").all_inner_texts() == ["Nothing in the training data is similar to this."]


def test_a_page_for_single_texts(open_page: Open) -> None:
    task = single_task()
    models = [reading(Scripted(lambda a, b: (float("good" in a), 0.5), YES_NO)), Scripted(lambda a, b: (0.0, 1.0))]
    scorer = fit_bias_scorer(task, "words")
    view = PairView(
        task, [match(each, YES_NO) for each in models], Shortcut("words", scorer.log_probs), TrainingRows(task)
    )
    with serving(page_of(view)) as page:
        tab = open_page(page.address, viewport=NARROW)
        assert tab.locator("#text-b").is_hidden()
        tab.fill("#text-a", "the judge saw something good")
        assert answers(tab) == ["no", "yes", "yes"]
        assert tab.locator("#words-title").inner_text() == "Words that a model does not know"
        assert tab.locator("#marked-a .unknown").all_inner_texts() == ["something", "good"]
        assert tab.locator("#where").inner_text().startswith("Edited")
        assert tab.get_by_text("Use this text").count()
        tab.fill("#text-a", "the judge saw")
        answers(tab)
        assert tab.locator("#words").is_hidden(), "every word is known, and there is no second text"
        tab.fill("#text-a", "")
        tab.get_by_text("Type a text, or step through the rows.").wait_for()
        assert "pair" not in tab.locator("main").inner_text()
        assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
