"""Changes a router's mode to `poll` on the dashboard's page, in a browser, as an operator does.

usage: mode.py ADDRESS-WITH-TOKEN PROFILE-DIRECTORY     (beside dashboard/tests/page.py)
"""

from selenium.webdriver.common.by import By

from page import ADDRESS, browser, open_page, press, there, wait


def main():
    dialog = "document.querySelector('dialog')"
    try:
        browser.get(ADDRESS)
        there("Live")
        open_page("#/live/router")
        press("Change mode")
        wait(lambda: browser.find_elements(By.CSS_SELECTOR, "dialog[open] input[value=poll]"), "the dialog")
        browser.find_element(By.CSS_SELECTOR, "dialog input[value=poll]").click()
        press("Continue", dialog)
        press("Change to poll", dialog)
        wait(lambda: not browser.find_elements(By.CSS_SELECTOR, "dialog[open]"), "the dialog's end")
    finally:
        browser.quit()


main()
