"""The report page in a real browser, offline. ``tests/browser.sh`` finds Chromium; without one these tests fail."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from metaop.debug.page import embed, render, verdict
from tests.debug import reports
from tests.debug.browser import chromium

HOSTILE = "<script>alert(1)</script>"

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def watch(page: Page, own: str, wrong: list[str]) -> None:
    """Notes whatever a page should not do; a request for anything but itself is refused as well."""

    def judge(route: Route) -> None:
        if route.request.url == own:
            route.continue_()
        else:
            wrong.append(f"asked for {route.request.url}")
            route.abort()

    page.route("**/*", judge)
    page.on("console", lambda message: wrong.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page from disk, without a network; whatever it asks for, complains of or pops up fails the test."""
    contexts = []
    wrong: list[str] = []

    def open_page(source: str | dict[str, Any], *, ready: str = "html[data-ready]", **options: Any) -> Page:
        path = tmp_path / "report.html"
        path.write_text(source if isinstance(source, str) else render(source), encoding="utf-8")
        options = {"viewport": {"width": 1440, "height": 1000}, "reduced_motion": "reduce", **options}
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        watch(page, path.as_uri(), wrong)
        page.goto(path.as_uri())
        page.wait_for_selector(ready)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def test_the_watch_sees_what_it_should(browser: Browser, tmp_path: Path) -> None:
    path, wrong = tmp_path / "page.html", []
    path.write_text(
        "<img src=near.png><link rel=stylesheet href=http://example.org/far.css>"
        "<script>console.log('hello'); alert('boo'); nothing()</script>",
        encoding="utf-8",
    )
    page = browser.new_page()
    watch(page, path.as_uri(), wrong)
    page.goto(path.as_uri())
    page.close()
    found = "\n".join(wrong)
    for what in (
        "near.png",
        "http://example.org/far.css",
        "console: hello",
        "dialog: boo",
        "error: nothing is not defined",
    ):
        assert what in found


def names(page: Page) -> list[str]:
    """The nodes of the table, from top to bottom."""
    return page.locator("#records tbody tr td:nth-child(2)").all_inner_texts()


def title(page: Page) -> str:
    return page.locator("#details h2").inner_text()


def on_map(page: Page) -> str:
    """What the map's selected node says of itself."""
    return page.locator("#map [role=option]").get_attribute("aria-label") or ""


# -- the verdict -------------------------------------------------------------------------------------------------------

PAIR = {"frameworks": ["torch", "jax"], "versions": ["2.13.0", "0.10.2"]}
BOTH = "torch (2.13.0) and jax (0.10.2)"


def suspect(node: str, score: Any, wrong: str | None = "jax") -> dict[str, Any]:
    return {"node": node, "op": "relu", "score": score, "suspect": True, "wrong": wrong}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "the frameworks agree"),
        (PAIR | {"consistent": True}, f"{BOTH} agree"),
        (PAIR | {"consistent": False}, f"{BOTH} disagree"),
        (PAIR | {"consistent": False, "headline": "in other words"}, "in other words"),
        (PAIR | {"records": [suspect("a", 9.0, None)], "headline": "1 of 1"}, "1 of 1"),
        (PAIR | {"records": [suspect("a", 9.0)]}, f"{BOTH} disagree: relu at 'a' is wrong on jax"),
        (
            PAIR | {"records": [suspect("a", 9.0), suspect("b", "inf")]},
            f"{BOTH} disagree: relu at 'b' is wrong on jax, and 1 more",
        ),
        (
            PAIR
            | {
                "records": [suspect("a", None)],
                "verifications": [
                    {"confirmed": False, "nodes": ["c"], "op": "add", "blame": "jax"},
                    {"confirmed": True, "nodes": ["d"], "op": "add", "blame": None},
                    {"confirmed": True, "nodes": ["b", "c"], "op": "exp", "blame": "torch"},
                ],
            },
            f"{BOTH} disagree: exp at 'b' is wrong on torch, and 1 more",
        ),
    ],
)
def test_the_verdict_is_one_sentence(data: dict[str, Any], sentence: str) -> None:
    assert verdict(data) == sentence


# -- nothing gets in, nothing gets out ---------------------------------------------------------------------------------


def test_the_data_come_out_of_the_page_as_they_went_in() -> None:
    data = {"a": HOSTILE, "b": "</script><!--", "c": "&lt; ]]> \u2028 \ud800", "d": [1.5, None, True], "é": "ü"}
    page = render(data)
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert inside
    assert json.loads(inside[1]) == data
    assert not set("<>&") & set(inside[1])


def test_numbers_that_json_has_not_are_words() -> None:
    page = render({"x": [float("inf"), float("-inf"), float("nan")]})
    assert '{"x":["inf","-inf","nan"]}' in page


def test_no_asset_ends_its_own_element() -> None:
    for asset in files("metaop.debug.page").iterdir():
        if asset.name.endswith((".js", ".css")):
            assert not re.search(r"</(script|style)|<!--", asset.read_text(encoding="utf-8"), re.IGNORECASE), asset


def test_the_page_opens_from_disk_and_asks_for_nothing(open_page: Open) -> None:
    page = open_page(reports.small())
    assert page.title() == verdict(reports.small())
    assert page.locator("h1").inner_text().endswith("disagree: conv2d at 'conv2' is wrong on onnxruntime")
    assert "torch 2.13.0" in page.locator("#facts").inner_text().replace("\n", " ")
    assert "onnxruntime 1.31.1" in page.locator("#facts").inner_text().replace("\n", " ")


def test_the_policy_lets_nothing_else_run_or_load(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(reports.small()), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    done = page.evaluate(
        """async () => {
            const script = document.createElement("script");
            script.textContent = "window.intruder = true";
            document.body.append(script);
            const image = await new Promise((done) => {
                const image = new Image();
                image.onload = () => done(true);
                image.onerror = () => done(false);
                image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=";
            });
            const fetched = await fetch(location.href).then(() => true, () => false);
            return [window.intruder === true, image, fetched];
        }"""
    )
    page.close()
    assert done == [False, False, False]


def test_names_and_messages_are_text_everywhere(open_page: Open) -> None:
    page = open_page(reports.small())
    assert {HOSTILE, "</script><!--"} <= set(names(page))
    for node in (HOSTILE, "</script><!--", "accuracy"):
        page.fill("#search", node)
        page.press("#search", "Enter")
        assert title(page) == node
        assert node in on_map(page)
    assert "<img src=x onerror=alert(2)>" in page.locator("#details").inner_text()
    assert "<b>not bold</b>" in page.locator("#notes").inner_text()
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0


def test_hostile_words_in_the_frame_of_the_page(open_page: Open) -> None:
    data = reports.small()
    data |= {"frameworks": ['"><script>alert(1)</script>', "$data"], "headline": HOSTILE, "metaop": HOSTILE}
    page = open_page(data)
    assert page.locator("h1").inner_text().startswith('"><script>alert(1)</script> (2.13.0) and $data (1.31.1)')


# -- the fault ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [reports.small, reports.resnet, reports.deep])
def test_the_fault_is_selected_and_in_view(open_page: Open, make: Callable[[], dict[str, Any]]) -> None:
    data = make()
    fault = data["verifications"][0]["nodes"][0]
    page = open_page(data)
    assert title(page) == fault
    assert on_map(page).startswith(f"{fault}, ")
    assert "fault" in on_map(page)
    box, frame = page.locator("#map [role=option]").bounding_box(), page.locator("#map").bounding_box()
    assert box
    assert frame
    assert box["width"] > 60, "large enough to be read"
    assert frame["x"] <= box["x"] <= frame["x"] + frame["width"] - box["width"]
    assert frame["y"] <= box["y"] <= frame["y"] + frame["height"] - box["height"]
    assert page.locator("#records tr[aria-selected=true] td:nth-child(2)").inner_text() == fault
    details = page.locator("#details").inner_text()
    assert "Wrong on onnxruntime" in details
    assert "Confirmed" in details
    assert "jax and tensorflow side with torch" in details
    expect(page.get_by_role("img", name="Histogram of differences")).to_have_count(2)


def test_the_worst_suspect_stands_in_for_a_verified_fault(open_page: Open) -> None:
    page = open_page(reports.small() | {"verifications": []})
    assert title(page) == "pool", "it crashed, which no score exceeds"


def test_agreement_selects_nothing(open_page: Open) -> None:
    builder = reports.Builder()
    builder.op("b", "relu", builder.leaf("a", "placeholder"))
    page = open_page(builder.report("b"))
    assert title(page) == "Nothing suspect"
    assert page.locator("h1").get_attribute("class") == "agree"
    page.focus("#map")
    page.keyboard.press("ArrowDown")
    assert title(page) == "a"


# -- table and search --------------------------------------------------------------------------------------------------


def test_the_table_sorts_by_click_and_by_key(open_page: Open) -> None:
    page = open_page(reports.small())
    head = page.locator("#records th")
    score, node = head.filter(has_text="Score"), head.filter(has_text="Node")
    assert names(page)[:3] == ["pool", "conv2", HOSTILE], "the worst first"
    assert names(page)[-1] == "accuracy", "what has no score stands last"
    score.get_by_role("button").click()
    assert score.get_attribute("aria-sort") == "ascending"
    assert names(page)[-4:] == [HOSTILE, "conv2", "pool", "accuracy"], "and last the other way round too"
    node.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert node.get_attribute("aria-sort") == "ascending"
    assert score.get_attribute("aria-sort") is None
    ascending = names(page)
    assert ascending[2:5] == ["accuracy", "add", "conv1"]
    page.keyboard.press("Space")
    assert names(page) == ascending[::-1]
    assert title(page) == "conv2", "sorting selects nothing"


def test_the_table_is_walked_with_keys(open_page: Open) -> None:
    page = open_page(reports.small())
    expect(page.locator("#records tbody tr[tabindex='0']")).to_have_count(1)
    page.locator("#records tbody tr[tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert title(page) == HOSTILE
    page.keyboard.press("End")
    page.keyboard.press("Space")
    assert title(page) == "accuracy"
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert title(page) == "pool"
    assert on_map(page).startswith("pool")


def test_rows_are_clicked(open_page: Open) -> None:
    page = open_page(reports.small())
    page.get_by_role("row").filter(has_text="batch").first.click()
    assert title(page) == "conv2", "an input is no node"
    page.get_by_role("row").filter(has_text="relu1").click()
    assert title(page) == "relu1"


def test_search_filters_and_finds(open_page: Open) -> None:
    page = open_page(reports.small())
    page.keyboard.press("/")
    page.keyboard.type("CONV2D")
    assert sorted(names(page)) == ["conv1", "conv2"]
    assert page.locator("#found").inner_text() == "2 of 19 nodes"
    page.keyboard.press("Enter")
    assert title(page) == "conv1", "the match after the selected one"
    page.keyboard.press("Enter")
    assert title(page) == "conv2"
    page.keyboard.press("Escape")
    assert len(names(page)) == 12
    page.fill("#search", "no such node")
    assert names(page) == []
    assert "Nothing matches" in page.locator("#records").inner_text()


def test_search_finds_what_has_no_record(open_page: Open) -> None:
    page = open_page(reports.resnet())
    page.fill("#search", "layer1.0.bn2.mean")
    page.keyboard.press("Enter")
    assert title(page) == "layer1.0.bn2.mean"
    assert "Not drawn on the map" in page.locator("#details").inner_text()
    page.get_by_role("button", name="layer1.0.bn2", exact=True).click()
    assert title(page) == "layer1.0.bn2"


def test_classes_filter(open_page: Open) -> None:
    page = open_page(reports.small())
    button = page.get_by_role("button", name="convention")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert names(page) == [HOSTILE]
    page.get_by_role("button", name="tail").click()
    assert names(page) == [HOSTILE, "</script><!--"]


def test_inputs_have_a_table_of_their_own(open_page: Open) -> None:
    page = open_page(reports.small())
    rows = page.locator("#feeds tbody tr td:first-child")
    assert rows.all_inner_texts() == ["batch_002.npz", "batch_003.npz", "batch_001.npz"]
    page.locator("#feeds th button").filter(has_text="Input").click()
    assert rows.all_inner_texts() == ["batch_001.npz", "batch_002.npz", "batch_003.npz"]
    assert not open_page(reports.resnet()).locator("#feeds-panel").is_visible()


# -- the map -----------------------------------------------------------------------------------------------------------


def test_keys_walk_the_map(open_page: Open) -> None:
    page = open_page(reports.small())
    page.focus("#map")
    assert page.locator("#map").get_attribute("aria-activedescendant") == page.locator(
        "#map [role=option]"
    ).get_attribute("id")
    page.keyboard.press("ArrowDown")
    assert title(page) == HOSTILE
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert title(page) == "relu1"
    page.keyboard.press("PageDown")
    assert title(page) == "conv2"
    page.keyboard.press("PageDown")
    assert title(page) == "pool"
    page.keyboard.press("End")
    assert title(page) == "loss"
    page.keyboard.press("ArrowRight")
    assert title(page) == "accuracy"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "details"


def test_focus_can_be_seen_and_the_table_can_be_skipped_to(open_page: Open) -> None:
    page = open_page(reports.small())
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the table")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#records') !== null")
    page.focus("#search")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "map":
            break
    expect(page.locator("#map")).to_be_focused()
    outlines = "e => [e, e.querySelector('.cursor')].map((x) => getComputedStyle(x).outlineStyle)"
    assert page.locator("#map").evaluate(outlines) == ["solid", "solid"]


def test_nodes_are_clicked_on_the_map(open_page: Open) -> None:
    page = open_page(reports.small())
    box = page.locator("#map [role=option]").bounding_box()
    assert box
    page.locator("#map").press("ArrowUp")
    assert title(page) == "relu1"
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert title(page) == "conv2"
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "conv2, conv2d, fault, score 531" in page.locator("#map .tip").inner_text()


def test_the_map_is_dragged_and_zoomed(open_page: Open) -> None:
    page = open_page(reports.small())
    option = page.locator("#map [role=option]")
    before = option.bounding_box()
    assert before
    page.get_by_role("button", name="Zoom in").click()
    expect(option).to_have_css("width", re.compile(r"^(1[5-9]|2)\d\d"))
    page.get_by_role("button", name="Whole").click()
    page.mouse.move(before["x"] - 60, before["y"])
    page.mouse.down()
    page.mouse.move(before["x"] - 10, before["y"] + 20, steps=3)
    page.mouse.up()
    page.wait_for_timeout(100)
    after = option.bounding_box()
    assert after
    assert after["x"] - before["x"] == pytest.approx(50, abs=2)
    assert after["y"] - before["y"] == pytest.approx(20, abs=2)
    assert title(page) == "conv2", "dragging selects nothing"
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(100)
    zoomed = option.bounding_box()
    assert zoomed
    assert zoomed["width"] > after["width"]
    assert page.evaluate("scrollY") == 0


def test_variables_and_constants_are_hidden_in_large_models_until_asked_for(open_page: Open) -> None:
    size = "Number(document.querySelector('#map [role=option]').getAttribute('aria-setsize'))"
    page = open_page(reports.small())
    assert page.evaluate(size) == 19
    page.get_by_role("checkbox", name="variables").uncheck()
    assert page.evaluate(size) == 15
    data = reports.resnet()
    page = open_page(data)
    shown = sum(node["kind"] in ("operator", "placeholder") for node in data["graph"]["nodes"])
    assert page.evaluate(size) == shown
    page.get_by_role("checkbox", name="variables").check()
    assert page.evaluate(size) == len(data["graph"]["nodes"])
    assert title(page) == "layer3.2.conv2", "which stays selected"


def test_thousands_of_nodes_open_soon(open_page: Open) -> None:
    """Usability, not speed: what takes ten seconds even on a busy machine nobody waits for."""
    source = render(reports.deep(2000))
    start = time.perf_counter()
    page = open_page(source)
    seconds = time.perf_counter() - start
    print(f"2,000 nodes opened in {seconds:.2f} s")
    assert seconds < 10
    assert len(names(page)) == 300
    page.get_by_role("button", name="Show all").click()
    assert len(names(page)) == sum(node["kind"] == "operator" for node in reports.deep(2000)["graph"]["nodes"])


LAYOUT_FAULTS = """([nodes, options]) => {
    const l = layOut(nodes, options), found = [];
    const box = (i) => [l.x[i] - l.w[i] / 2, l.y[i] - l.h[i] / 2, l.x[i] + l.w[i] / 2, l.y[i] + l.h[i] / 2];
    for (let i = 0; i < nodes.length; i++) {
        const [a, b, c, d] = box(i);
        if (!(a >= -1e-6 && c <= l.width + 1e-6 && b >= -1e-6 && d <= l.height + 1e-6)) found.push(`${i} is outside`);
        for (let j = 0; j < i; j++) {
            const [e, f, g, h] = box(j);
            if (a < g - 1e-6 && e < c - 1e-6 && b < h - 1e-6 && f < d - 1e-6) found.push(`${i} covers ${j}`);
        }
        for (const j of nodes[i].inputs)
            if (!nodes[j].leaf && l.layer[j] >= l.layer[i]) found.push(`${j} is not above ${i}`);
    }
    const drawn = new Set(l.edges.map((e) => `${e.from} ${e.to}`));
    nodes.forEach((n, i) => n.inputs.forEach((j) => drawn.has(`${j} ${i}`) || found.push(`no edge ${j} ${i}`)));
    if (l.edges.some((e) => e.points.some((p) => !Number.isFinite(p)))) found.push("an edge leads nowhere");
    return found;
}"""


@pytest.mark.parametrize("seed", range(6))
def test_no_node_covers_another(browser: Browser, seed: int) -> None:
    """Random graphs of every shape: chains, bushes, many leaves, far edges; views wide, tall and tiny."""
    page = browser.new_page()
    page.add_script_tag(content=files("metaop.debug.page").joinpath("layout.js").read_text(encoding="utf-8"))
    random = reports.Builder(seed).random
    for count in (0, 1, 2, 7, 60, 400):
        reach = random.choice([1, 2, 5, 50, 1000])
        nodes: list[dict[str, Any]] = []
        for i in range(count):
            kind = random.random()
            leaf, data = kind < 0.3, 0.3 <= kind < 0.35
            near = range(max(0, i - reach), i)
            inputs = [] if leaf or data else random.sample(near, min(len(near), random.choice([0, 1, 1, 2, 3, 9])))
            nodes.append({"inputs": inputs, "leaf": leaf, "data": data})
        for width, height in ((900, 600), (300, 900), (30, 10)):
            options = {"nodeWidth": 150, "viewWidth": width, "viewHeight": height}
            assert page.evaluate(LAYOUT_FAULTS, [nodes, options]) == []
    page.close()


# -- looks -------------------------------------------------------------------------------------------------------------


def test_dark_and_light(open_page: Open) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    pixel = """(() => {
        const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
        pen.drawImage(document.querySelector(".drawing"), 0, 0);
        return [...pen.getImageData(3, 3, 1, 1).data];
    })()"""
    page = open_page(reports.small(), color_scheme="light")
    light, light_map = page.evaluate(ground), page.evaluate(pixel)
    button = page.locator("#theme")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    dark, dark_map = page.evaluate(ground), page.evaluate(pixel)
    assert sum(dark_map[:3]) < 150 < 600 < sum(light_map[:3])
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark, "the choice is remembered"
    page.locator("#theme").click()
    assert page.evaluate(ground) == light
    page = open_page(reports.small(), color_scheme="dark")
    assert (page.evaluate(ground), page.evaluate(pixel)) == (dark, dark_map)
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(100)
    assert (page.evaluate(ground), page.evaluate(pixel)) == (light, light_map)


def test_the_page_prints(open_page: Open) -> None:
    page = open_page(reports.deep(600), color_scheme="dark")
    assert len(names(page)) == 300
    page.evaluate("addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme })")
    assert page.pdf().startswith(b"%PDF")
    assert len(names(page)) > 400, "paper has no button that shows all rows"
    assert page.evaluate("window.printed") == "light"
    assert page.locator("#theme .label").inner_text() == "Light", "and the screen is dark as before"


@pytest.mark.parametrize("width", [420, 800])
def test_nothing_is_wider_than_a_narrow_window(open_page: Open, width: int) -> None:
    page = open_page(reports.small(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


# -- other reports, other places ---------------------------------------------------------------------------------------

ODD = {
    "nothing": {},
    "nulls": dict.fromkeys(reports.small()),
    "no graph": reports.small() | {"graph": None},
    "no records": reports.small() | {"records": [], "verifications": []},
    "one framework of unknown version": {"frameworks": ["torch"], "versions": None, "consistent": False},
    "bare records": {
        "records": [{"node": "a"}, {"node": "b", "suspect": True}, {"node": "c", "kind": "new", "score": 2}]
    },
    "strange numbers": {
        "records": [
            {"node": str(n), "op": "f", "score": score, "output_delta": score, "parts": [{"delta": score}]}
            for n, score in enumerate(["inf", "-inf", "nan", None, 0, -1.0, 1e-320, 1e308, "what"])
        ]
    },
    "strange histograms": {
        "records": [
            {
                "node": "a",
                "suspect": True,
                "parts": [
                    {"what": "output 0", "histogram": {"edges": [0], "counts": []}},
                    {"what": "output 1", "histogram": {"edges": [0, "inf"], "counts": [1]}},
                    {"what": "output 2", "histogram": {"edges": [-1, -1], "counts": [0]}, "worst": {"index": []}},
                    {"what": "output 3", "histogram": None, "worst": {}},
                ],
            }
        ]
    },
    "a graph that is none": {
        "graph": {
            "nodes": [
                {"name": "a", "kind": "operator", "op": "f", "inputs": ["b", "a", "nobody"]},
                {"name": "b", "kind": "operator", "op": "f", "inputs": ["a", "a"]},
                {"name": "a", "kind": "gizmo", "inputs": None},
                {"name": "", "kind": "operator", "op": "f", "inputs": [""]},
                {"name": "x" * 500, "kind": "constant"},
            ]
        },
        "records": [{"node": "a", "op": "f", "score": 3.0, "suspect": True}],
    },
    "unknown keys": reports.small() | {"future": {"deep": [1, {"x": None}]}, "graph": {"nodes": [], "more": 1}},
}


@pytest.mark.parametrize("what", ODD)
def test_odd_reports_open(open_page: Open, what: str) -> None:
    page = open_page(ODD[what])
    for key in (
        ()
        if not page.locator("#map").is_visible()
        else ("End", "ArrowUp", "ArrowLeft", "Home", "ArrowDown", "PageDown")
    ):
        page.locator("#map").press(key)
    for head in page.locator("#records th button").all():
        head.click()
        head.click()
    for row in page.locator("#records tbody tr").all():
        row.click()
    page.fill("#search", "a")
    page.keyboard.press("Enter")


def test_it_lives_in_a_notebook(open_page: Open) -> None:
    source = f"<!doctype html><title>notebook</title><p id=x>cell</p>{embed(reports.small())}<p>after</p>"
    page = open_page(source, ready="iframe", viewport={"width": 1000, "height": 800})
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached")
    assert frame.locator("#details h2").inner_text() == "conv2"
    option = frame.locator("#map [role=option]")
    box, outer = option.bounding_box(), page.locator("iframe").bounding_box()
    assert box
    assert outer
    assert outer["height"] == pytest.approx(640, abs=1)
    assert outer["y"] < box["y"] < outer["y"] + outer["height"] - box["height"], "seen without scrolling"
    frame.get_by_role("row").filter(has_text=HOSTILE).click()
    assert frame.locator("#details h2").inner_text() == HOSTILE
    frame.locator("#theme").click()
    assert page.title() == "notebook"
