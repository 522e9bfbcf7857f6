"""What the tests of the chat page share: the mock server, and conversations."""
from browser import set_size, set_theme
from browser_case import BrowserCase, Keys, main  # noqa: F401
from mock_server import MockServer


class PageCase(BrowserCase):
    """Each test begins with an empty storage, 1200 x 800 pixels, and a light system."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not hasattr(PageCase, "server"):
            PageCase.server = MockServer()

    def setUp(self):
        self.server.clear()
        set_size(self.driver, 1200, 800)
        set_theme(self.driver, "light")
        if self.driver.current_url.startswith(self.server.url):
            # The page of a test that failed would save its answer when it is left.
            self.js("addEventListener('pagehide', (event) => event.stopImmediatePropagation(), true);"
                    "localStorage.clear(); sessionStorage.clear();")
        self.driver.get(self.server.url)
        self.wait(lambda: self.text("#model-name") == "mock-8b", "the page has the models")
        self.driver.get_log("browser")

    def send(self, text):
        self.one("#input").send_keys(text, Keys.ENTER)

    def finished(self, answers=1):
        """Waits until that many answers are there and none runs."""
        self.wait(lambda: len(self.all(".answer")) == answers and self.shown("#send"), f"{answers} answers are complete")

    def ask(self, text, answers=1):
        self.send(text)
        self.finished(answers)

    def roles(self, request=-1):
        """Roles and texts of a request."""
        return [(message["role"], message["content"]) for message in self.server.requests[request]["messages"]]
