"""The dashboard in Debian's Chromium: every page in light, dark and at 360 px, by axe-core without a violation; the
mode of the router changed with confirmation, a scenario run and cancelled, a million points moved about in.

usage: browser.py ADDRESS-WITH-TOKEN PROFILE-DIRECTORY [--screenshots DIRECTORY]
"""

import json
import pathlib
import sys
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

HERE = pathlib.Path(__file__).parent
AXE = (HERE / "vendor" / "axe.min.js").read_text(encoding="utf-8")
ADDRESS, PROFILE = sys.argv[1], sys.argv[2]
SHOTS = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None
BASE, TOKEN = ADDRESS.split("#token=")
WIDE, NARROW = (1440, 900), (360, 740)


def start():
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                 "--disable-background-networking", "--no-first-run", f"--user-data-dir={PROFILE}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


browser = start()
faults = []
begun = time.monotonic()


def say(text):
    print(f"{time.monotonic() - begun:5.1f} s  {text}", flush=True)


def wait(holds, what, seconds=20):
    try:
        return WebDriverWait(browser, seconds, poll_frequency=0.05).until(lambda _: holds())
    except Exception as error:
        keep("failed")
        raise AssertionError(f"{what}: not within {seconds} s; the page says: {text()[:2000]}") from error


def script(code, *arguments):
    return browser.execute_script(code, *arguments)


def text():
    return script("return document.body.innerText") or ""


def there(words):
    return wait(lambda: words.lower() in text().lower(), words)


def open_page(path):
    script("location.hash = arguments[0]", path)
    script("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def button(words, inside="document"):
    found = script(f"""
      return [...{inside}.querySelectorAll('button, a.button')].find((one) => one.checkVisibility() && !one.disabled
        && one.textContent.trim().startsWith(arguments[0]))""", words)
    return found


def press(words, inside="document"):
    wait(lambda: button(words, inside), f"a button {words}").click()


def fill(selector, value):
    field = browser.find_element(By.CSS_SELECTOR, selector)
    field.clear()
    field.send_keys(value)


def size(width, height):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})


def scheme(name):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})


def keep(name):
    if SHOTS:
        SHOTS.mkdir(parents=True, exist_ok=True)
        whole = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
        import base64
        (SHOTS / f"{name}.png").write_bytes(base64.b64decode(whole["data"]))


def axe(name):
    if not script("return Boolean(window.axe)"):
        # Beside the page's policy, which would refuse any other script.
        browser.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    found = browser.execute_async_script("""
      const done = arguments[arguments.length - 1];
      axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'] })
        .then((all) => done(all.violations.map((one) => [one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + node.failureSummary.slice(0, 200))])),
          (error) => done([['axe', String(error), []]]));""")
    for rule, words, nodes in found:
        faults.append(f"{name}: {rule}: {words}: {nodes}")


def wide(name):
    over = script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if over > 0:
        worst = script("""
          const edge = document.documentElement.clientWidth;
          return [...document.querySelectorAll('main *, header *')].filter((one) => one.getBoundingClientRect().right > edge + 1 && !one.parentElement.closest('.scroll, pre'))
            .slice(0, 3).map((one) => one.outerHTML.slice(0, 160))""")
        faults.append(f"{name}: {over} px wider than the screen: {worst}")


def look(name, dialog=False):
    """All four looks of what is shown."""
    for colours in ("light", "dark"):
        scheme(colours)
        for shape, (width, height) in (("wide", WIDE), ("narrow", NARROW)):
            size(width, height)
            time.sleep(0.12)
            keep(f"{name}-{colours}-{shape}")
            # Both colours and both shapes once: what axe finds depends on each, hardly on their pairs.
            if (colours, shape) in (("light", "wide"), ("dark", "narrow")) or dialog:
                axe(f"{name} {colours} {shape}")
            wide(f"{name} {colours} {shape}")
    scheme("light")
    size(*WIDE)
    say(name)


def mode():
    """Changes the router's mode as an operator does."""
    press("Change mode")
    wait(lambda: browser.find_elements(By.CSS_SELECTOR, "dialog[open] input[value=powersave]"), "the dialog")
    look("mode-dialog", dialog=True)
    browser.find_element(By.CSS_SELECTOR, "dialog input[value=powersave]").click()
    press("Continue", "document.querySelector('dialog')")
    wait(lambda: "Change r1 from napi to powersave?" in text(), "the question")
    keep("mode-question")
    press("Change to powersave", "document.querySelector('dialog')")
    wait(lambda: not browser.find_elements(By.CSS_SELECTOR, "dialog[open]"), "the dialog's end")
    wait(lambda: "mode powersave" in text().replace("\n", " "), "the new mode")
    say("mode changed")


def keyboard():
    """The first Tab leads to the content, dialogs keep the keyboard and close by Escape."""
    script("document.activeElement.blur(); document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")
    active = lambda: script("return document.activeElement.textContent.trim() || document.activeElement.className")
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert active() == "To the content", active()
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert script("return document.activeElement.id") == "main"
    button("Change mode").send_keys(Keys.ENTER)
    wait(lambda: browser.find_elements(By.CSS_SELECTOR, "dialog[open]"), "the dialog")
    for _ in range(8):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        assert script("return document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))")
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    wait(lambda: not browser.find_elements(By.CSS_SELECTOR, "dialog[open]"), "Escape")
    plot = browser.find_element(By.CSS_SELECTOR, ".canvas")
    plot.send_keys(Keys.HOME)
    assert script("return document.querySelector('.plot .at').textContent").count(":") == 2
    say("keyboard")


def million():
    """Zooms and moves about in a million points; how long a frame takes of the page's thread."""
    times = browser.execute_async_script("""
      const done = arguments[arguments.length - 1];
      const over = document.querySelector('.u-over');
      const box = over.getBoundingClientRect();
      const mouse = (type, x, where = over) => where.dispatchEvent(new MouseEvent(type, { bubbles: true, clientX: box.left + x, clientY: box.top + 50, button: 0, buttons: type === 'mouseup' ? 0 : 1 }));
      const work = [];
      let [count, last, frames] = [0, performance.now(), []];
      const step = (now) => {
        frames.push(now - last);
        last = now;
        const begun = performance.now();
        if (count % 30 === 0) { mouse('mousedown', box.width * 0.2); mouse('mousemove', box.width * 0.8, document); mouse('mouseup', box.width * 0.8, document); }
        else mouse('mousemove', (box.width * (count % 30)) / 30);
        work.push(performance.now() - begun);
        count += 1;
        if (count < 120) requestAnimationFrame(step);
        else done([work, frames.slice(1)]);
      };
      requestAnimationFrame(step);""")
    work, frames = (sorted(one) for one in times)
    say(f"a million points: {1000 * len(frames) / sum(frames):.0f} frames/s, a frame's work {work[len(work) // 2]:.1f} ms, the longest {work[-1]:.1f} ms")
    assert 1000 * len(frames) / sum(frames) > 30, frames[-10:]
    assert work[int(0.95 * len(work))] < 1000 / 60, work[-10:]


def scenario():
    """Fills a form in, sees what is wrong, runs a sweep, opens what it found; cancels another."""
    open_page("#/scenarios/sim/router")
    there("Settings on top")
    fill("input[name=load]", "-1")
    wait(lambda: "load: Above 0." in text(), "what is wrong")
    look("scenario")
    fill("input[name=load]", "0.4")
    browser.find_element(By.CSS_SELECTOR, "select[name=engine]").send_keys("slot")
    fill("input[name=duration_s]", "0.05")
    fill("input[name=name]", "from-form")
    fill("textarea[name=set]", "load=0.2,0.6")
    press("Run")
    wait(lambda: button("See what it found"), "the end of the run")
    look("scenario-done")
    press("See what it found")
    there("Points of the sweep")
    look("run-sweep")
    open_page("#/scenarios/sim/router")
    there("Settings on top")
    fill("input[name=name]", "endless")
    fill("input[name=load]", "0.5")
    fill("input[name=duration_s]", "100000")
    press("Run")
    wait(lambda: "running" in text(), "the start")
    look("scenario-running")
    press("Cancel")
    wait(lambda: "stopped" in text(), "its end")
    say("scenario")


def elsewhere():
    """What the browser asked of whom."""
    asked = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.add(message["params"]["request"]["url"])
    strange = [url for url in asked if not url.startswith((BASE, "data:", "blob:", "chrome"))]
    assert len(asked) > 20 and not strange, strange


def main():
    browser.set_script_timeout(30)
    size(*WIDE)
    browser.get(ADDRESS)
    there("r1")
    assert "token" not in browser.current_url, browser.current_url
    there("Not running")
    look("fleet")
    open_page("#/live/r1")
    there("Hand-overs of flows")
    wait(lambda: script("return document.querySelectorAll('.uplot').length") >= 6, "plots")
    time.sleep(1.5)
    look("live")
    keyboard()
    mode()
    open_page("#/live/absent")
    there("does not answer")
    look("absent")
    open_page("#/runs")
    there("A million points")
    look("runs")
    open_page("#/runs/0%2Fmillion")
    there("drawn as least and most")
    look("run-million")
    million()
    scenario()
    open_page("#/compare/0%2Fmillion/0%2Ffrom-form")
    there("B − A")
    look("compare")
    open_page("#/published")
    there("predicted")
    look("published")
    open_page("#/scenarios")
    there("Simulate")
    look("scenarios")
    elsewhere()
    for entry in browser.get_log("browser"):
        if entry["level"] == "SEVERE" and "favicon" not in entry["message"] and "/api/" not in entry["message"]:
            faults.append(f"console: {entry['message']}")
    if faults:
        raise AssertionError("\n".join(faults))
    say("no violation")


try:
    main()
finally:
    browser.quit()
