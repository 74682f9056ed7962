"""The dashboard in a browser, page by page; the mode of the router changed with confirmation, a scenario run and
cancelled, a million points moved about in.

usage: browser.py ADDRESS-WITH-TOKEN PROFILE-DIRECTORY [--screenshots DIRECTORY]
"""

import time
import tomllib

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from page import browser, button, carry_out, fill, keep, look, open_page, press, say, script, text, there, wait


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


def presets():
    """Each example of each study fills its form in so that the form stands for what the example says; one is run."""
    count, as_text = 0, []
    for study in script("return fetch('/api/studies').then((answer) => answer.json())"):
        which = f"{study['kind']}/{study['system']}"
        forms = browser.execute_async_script("""
          const done = arguments[arguments.length - 1];
          (async () => {
            const { fromValues, toToml } = await import('/static/form.js');
            const study = await (await fetch(`/api/studies/${arguments[0]}`)).json();
            return study.presets.map((preset) => {
              const { seed, ...given } = preset.values;
              const shapes = study.schema?.anyOf ?? (study.schema ? [study.schema] : []);
              const found = shapes.map((shape) => [shape, fromValues(shape, given)]).find(([, values]) => values);
              return [preset.name, preset.text, found ? toToml(...found) : null];
            });
          })().then(done, (error) => done([[String(error)]]));""", which)
        for name, example, form in forms:
            count += 1
            if form is None:
                as_text.append(name)
                continue
            said = tomllib.loads(example)
            said.pop("seed", None)
            assert tomllib.loads(form) == said, f"{which} {name}:\n{form}\n{example}"
    assert count > 40 and not as_text, (count, as_text)
    open_page("#/scenarios/sim/router")
    there("Start from an example")
    Select(browser.find_element(By.CSS_SELECTOR, "select[name=example]")).select_by_visible_text("router-day: load=0.1..1.0:0.1")
    there("A weekday of an academic backbone")
    assert browser.find_element(By.CSS_SELECTOR, "textarea[name=set]").get_property("value") == "load=0.1..1.0:0.1"
    look("scenario-example")
    fill("input[name=name]", "from-example")
    press("Run")
    wait(lambda: button("See what it found"), "the end of the run", 60)
    Select(browser.find_element(By.CSS_SELECTOR, "select[name=example]")).select_by_visible_text("an empty form")
    there("0 settings differ from their defaults")
    say(f"{count} examples fill their forms in")


def main():
    there("r1")
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
    presets()
    open_page("#/compare/0%2Fmillion/0%2Ffrom-form")
    there("B − A")
    look("compare")
    open_page("#/published")
    there("predicted")
    look("published")
    open_page("#/scenarios")
    there("Simulate")
    look("scenarios")


carry_out(main)
