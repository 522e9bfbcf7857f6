// Runs before the first paint, so that a chosen theme does not flash. Without a choice the theme is that of the system.
"use strict";
document.documentElement.dataset.theme = localStorage.getItem("reprise.theme") || "system";
