'use strict';
// Draws a report of a file: its data stands in the page.
render(JSON.parse(document.getElementById('data').textContent));
followWindow();
