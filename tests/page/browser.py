"""Headless Chromium for the tests and pictures of the page."""
import shutil
import sys

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None

HANG_S = 60


def missing():
    """What is not installed, or ''."""
    names = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return " ".join(names + ([] if webdriver else ["python3-selenium"]))


def open_browser(width=1200, height=800, requests=False):
    """`requests`: get_log("performance") has the network requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
                   "--disable-background-networking", "--no-first-run", "--lang=en-GB", "--hide-scrollbars",
                   "--password-store=basic", "--disable-component-update", f"--window-size={width},{height}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", **({"performance": "ALL"} if requests else {})})
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    driver.set_script_timeout(HANG_S)
    return driver


def set_size(driver, width, height, scale=1):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600})


def set_theme(driver, theme):
    """The theme of the system: light or dark."""
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})


if __name__ == "__main__":
    print(missing(), file=sys.stderr)
    sys.exit(1 if missing() else 0)
