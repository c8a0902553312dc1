"""Reports as a reader sees them: pages of real studies in a headless Chromium, at the widths of a phone and of a
desktop, light and dark, and on paper."""
import json
import os
import subprocess
import tempfile
import unittest

from chromium import Chromium

BIN = os.environ["AUTOCFG_BIN_DIR"]
PHONE, DESKTOP = (390, 844), (1280, 900)
HOSTILE = "</script><script>window.broken=1</script><img src=x onerror=window.broken=1>"
TINY = {"name": HOSTILE, "layers": 4, "hidden": 64, "heads": 4, "vocab": 512, "max_seq_len": 64}
MEASURED = ["--cluster", "h100-sxm:1x4", "--device", "paced", "--global-batch", "16", "--max-trials", "4", "--space", "pp=2,4"]
PREDICTED = ["--model", "llama3-8b", "--cluster", "h100-sxm:2x8", "--global-batch", "64", "--seq-len", "4096", "--predict-only", "--save"]

# Of a canvas: how many colours it has, and the share of its points that are not of its most frequent one.
COLOURS = """(() => {
  const canvas = document.querySelector(%s);
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const key = data[i + 3] < 8 ? 'clear' : `${data[i]},${data[i + 1]},${data[i + 2]}`;
    seen.set(key, (seen.get(key) || 0) + 1);
  }
  return [seen.size, 1 - Math.max(...seen.values()) / (data.length / 4)];
})()"""


def autocfg(home, *words):
    done = subprocess.run([os.path.join(BIN, "autocfg"), *words], env={**os.environ, "XDG_STATE_HOME": home}, cwd=home,
                          capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        raise AssertionError(f"autocfg {' '.join(words)}: {done.stderr}")
    return done.stdout


class ReportPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        home = cls.directory.name
        with open(os.path.join(home, "tiny.json"), "w", encoding="utf-8") as file:
            json.dump(TINY, file)
        autocfg(home, "search", "--model", "tiny.json", *MEASURED)
        autocfg(home, "search", *PREDICTED)
        cls.pages = {"file": os.path.join(home, "file.html")}
        autocfg(home, "search", *PREDICTED[:-1], "--output", "best.json")
        autocfg(home, "report", "--input", "best.json", "--output", cls.pages["file"])
        for study, name in ((1, "measured"), (2, "predicted")):
            path = os.path.join(home, f"{name}.html")
            autocfg(home, "report", "--study", str(study), "--output", path)
            cls.pages[name] = path

    def setUp(self):
        self.browser = Chromium()
        self.addCleanup(self.browser.close)

    def open(self, name, size, dark=False):
        self.browser.window(*size, dark=dark)
        self.browser.open("file://" + self.pages[name])

    def check_charts(self, expected):
        """Expects these canvases, each with a picture on it."""
        names = self.browser.run("[...document.querySelectorAll('canvas')].map(one => one.id || one.className)")
        self.assertEqual(sorted(names), sorted(expected))
        for i in range(len(names)):
            self.browser.run(f"document.querySelectorAll('canvas')[{i}].dataset.number = '{i}'")
            colours, drawn = self.browser.run(COLOURS % json.dumps(f"canvas[data-number='{i}']"))
            self.assertGreater(colours, 4, names[i])
            self.assertGreater(drawn, 0.005, names[i])

    MEASURED_CHARTS = ["chart-plans", "timeline", "timeline", "chart-time", "chart-memory", "chart-measured", "chart-rejected"]
    PREDICTED_CHARTS = [name for name in MEASURED_CHARTS if name != "chart-measured"]

    FILE_CHARTS = ["chart-plans", "chart-time", "chart-memory", "chart-rejected"]

    def test_every_chart_is_drawn_at_every_width_and_theme(self):
        for name, charts in (("measured", self.MEASURED_CHARTS), ("predicted", self.PREDICTED_CHARTS), ("file", self.FILE_CHARTS)):
            for size in (PHONE, DESKTOP):
                for dark in (False, True):
                    with self.subTest(page=name, size=size, dark=dark):
                        self.open(name, size, dark)
                        self.check_charts(charts)
                        width = self.browser.run("document.documentElement.scrollWidth")
                        self.assertLessEqual(width, size[0], "the page is wider than its window")
                        paper = self.browser.run("getComputedStyle(document.body).backgroundColor")
                        self.assertEqual(paper, "rgb(18, 22, 28)" if dark else "rgb(255, 255, 255)")
                        self.assertEqual(self.browser.problems, [])

    def test_the_answer_comes_first(self):
        for name in self.pages:
            self.open(name, PHONE)
            top = self.browser.run("document.getElementById('answer').getBoundingClientRect().top")
            self.assertLess(top, PHONE[1] / 2)
            plan = self.browser.run("document.querySelector('#answer > .plan').textContent")
            self.assertRegex(plan, r"^tp=\d+,pp=\d+,dp=\d+,mbs=\d+")
            rows = self.browser.run("[...document.querySelectorAll('#runners .plan')].map(one => one.textContent)")
            self.assertEqual(rows[0], plan)

    def test_text_of_a_study_is_never_code(self):
        self.open("measured", DESKTOP)
        self.assertIn(HOSTILE, self.browser.run("document.querySelector('h1').textContent"))
        self.assertIn(HOSTILE, self.browser.run("document.title"))
        self.assertIsNone(self.browser.run("window.broken"))
        self.assertEqual(self.browser.run("document.images.length"), 0)

    def test_the_chart_has_every_plan_within_its_axes(self):
        for name in self.pages:
            self.open(name, DESKTOP)
            shown, most, outside = self.browser.run("""(() => {
              const chart = chartNamed('chart-plans'), {x, y} = chart.scales;
              const all = chart.data.datasets.filter((set) => !['compared', 'Pareto front'].includes(set.label)).flatMap((set) => set.data);
              return [all.length, JSON.parse(document.getElementById('data').textContent).plans.count,
                all.filter((point) => point.x < x.min || point.x > x.max || point.y < y.min || point.y > y.max).length];
            })()""")
            self.assertEqual(shown, most)
            self.assertEqual(outside, 0)

    def test_pointing_shows_a_plan_and_clicks_compare_two(self):
        self.open("predicted", DESKTOP)
        self.browser.run("document.getElementById('chart-plans').scrollIntoView()")
        # The places of the fastest plan and of the one that needs the least memory.
        places = self.browser.run("""(() => {
          const chart = chartNamed('chart-plans'), box = chart.canvas.getBoundingClientRect();
          const front = chart.data.datasets.find((set) => set.label === 'Pareto front').data;
          return [front[front.length - 1], front[0]].map((point) => [box.left + chart.scales.x.getPixelForValue(point.x),
            box.top + chart.scales.y.getPixelForValue(point.y), point.plan]);
        })()""")
        self.browser.click(*places[0][:2])
        self.assertTrue(self.browser.run("chartNamed('chart-plans').tooltip.title.join('').startsWith('tp=')"))
        self.browser.click(*places[1][:2])
        self.assertEqual(self.browser.run("[pair.first, pair.second]"), [places[0][2], places[1][2]])
        compared = self.browser.run("[...document.querySelectorAll('#comparison tr')].map(row => row.cells[0].textContent)")
        self.assertIn("step time", compared)
        self.assertIn("predicted memory", compared)
        self.assertEqual(self.browser.problems, [])

    DATA = "JSON.parse(document.getElementById('data').textContent)"

    def test_a_comparison_names_what_is_predicted_and_what_is_one_step(self):
        self.open("measured", PHONE)
        rows = self.browser.run("[...document.querySelectorAll('#comparison tr')].map(row => [...row.cells].map(cell => cell.textContent))")
        known = {row[0]: row[1:] for row in rows}
        self.assertEqual(known["how it is known"][0], "measured")
        self.assertIn("one measured step: in all", known)
        self.assertIn("predicted: compute", known)
        self.assertFalse([name for name in known if name.startswith("time: ")])
        plan = self.browser.run(f"{self.DATA}.plans.measured.find(one => one.plan === 0).predicted_s")
        self.assertEqual(known["predicted step"][0], self.browser.run(f"secondsText({plan})"))
        cut = self.browser.run("""(() => {
          const place = document.querySelector('#comparison .table');
          return place.scrollWidth - place.clientWidth;
        })()""")
        self.assertLessEqual(cut, 0, "the column of changes is cut")

    def test_the_measured_time_is_the_same_everywhere(self):
        self.open("measured", DESKTOP)
        plan, time, spread = self.browser.run(f"""(() => {{
          const {{best}} = {self.DATA}.answer;
          return [best.plan_text, secondsText(best.measured.step_time_s), spreadText(best.measured.ci95_s)];
        }})()""")
        rows = self.browser.run("[...document.querySelectorAll('#measured tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
        self.assertIn(time + spread, [row[2] for row in rows if row[0] == plan])

    def test_the_answer_tells_ties_and_what_memory_is(self):
        self.open("measured", DESKTOP)
        said = self.browser.run(f"""(() => {{
          const data = {self.DATA};
          return [0, 1, 2].map(tied => {{ data.answer.why.tied = tied; return answerBox(data).textContent; }});
        }})()""")
        self.assertNotIn("tied", said[0])
        self.assertIn("1 runner-up is tied with the best plan: the intervals overlap.", said[1])
        self.assertIn("2 runners-up are tied with the best plan: the intervals overlap.", said[2])
        self.assertRegex(said[0], r"Memory[0-9.]+ .iBpredicted; ")

    def test_half_of_the_predictions_miss_by_the_median(self):
        self.open("measured", DESKTOP)
        for errors, half in (((4.31, 2.13, 3.2, 2.19), "219%"), ((2, 3, 1), "200%")):
            said = self.browser.run(f"""(() => {{
              const data = {self.DATA};
              data.measurements = {json.dumps(errors)}.map(error => ({{plan: 'tp=1', trials: 1, slice: false, predicted_s: 1,
                low_s: 1, high_s: 1, measured_s: 1 + error, ci95_s: 0}}));
              return measuredSection(data).textContent;
            }})()""")
            self.assertIn(f"missed by at most {half};", said)

    def test_pairs_of_options_can_be_chosen(self):
        self.open("predicted", DESKTOP)
        corner = "document.querySelector('table.heat th').textContent"
        self.assertEqual(self.browser.run(corner), "tp \\ pp")
        best = self.browser.run("document.querySelector('table.heat td.best').textContent")
        self.assertEqual(best, self.browser.run("document.querySelector('.figures dd').firstChild.textContent"))
        self.browser.run("""(() => {
          const select = document.querySelector('select[aria-label=across]');
          select.value = 'mbs';
          select.dispatchEvent(new Event('change'));
        })()""")
        self.assertEqual(self.browser.run(corner), "tp \\ mbs")
        self.assertEqual(best, self.browser.run("document.querySelector('table.heat td.best').textContent"))

    def test_a_timeline_says_what_stands_at_a_place(self):
        self.open("measured", DESKTOP)
        said = self.browser.run("""(() => {
          const canvas = document.querySelector('canvas.timeline'), box = canvas.getBoundingClientRect();
          const said = new Set();
          for (let x = 60; x < box.width; x += 5) {
            canvas.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + x, clientY: box.top + 28}));
            said.add(canvas.closest('figure').querySelector('.reading').textContent);
          }
          return [...said].join('\\n');
        })()""")
        self.assertRegex(said, r"predicted, rank 0: forward of microbatch 0, stage 0, ")
        self.assertRegex(said, r"rank 0: waits")

    def test_the_measured_step_stands_below_the_predicted_one_on_the_same_scale(self):
        self.open("measured", DESKTOP)
        for figure in range(2):
            said = self.browser.run("""(() => {
              const canvas = document.querySelectorAll('canvas.timeline')[%d], box = canvas.getBoundingClientRect();
              const said = [];
              for (let y = 0; y < box.height; y += 3) {
                for (let x = 60; x < box.width; x += 5) {
                  canvas.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + x, clientY: box.top + y}));
                  said.push([y, canvas.closest('figure').querySelector('.reading').textContent]);
                }
              }
              canvas.dispatchEvent(new MouseEvent('mouseleave'));
              said.push([-1, canvas.closest('figure').querySelector('.reading').textContent]);
              return said;
            })()""" % figure)
            note = said.pop()[1]
            self.assertRegex(note, r"^Predicted: .* a step; its ranks wait for .*% of it\. Emulated: .* in one step of trial \d+; its ranks wait")
            rows = {}
            for y, text in said:
                rows.setdefault(text.split(":")[0], []).append(y)
            for how in ("predicted", "emulated"):
                self.assertIn(f"{how}, rank 0", rows)
                self.assertIn(f"{how}, rank 1", rows)
                self.assertTrue(any(text.startswith(f"{how}, rank 1: waits") for _, text in said), how)
                self.assertTrue(any(text.startswith(f"{how}, rank 0: forward of microbatch 0, stage 0, ") for _, text in said), how)
            self.assertLess(max(rows["predicted, rank 1"]), min(rows["emulated, rank 0"]))
        self.assertEqual(self.browser.problems, [])

    def test_without_a_measured_timeline_the_parts_are_shown(self):
        self.open("measured", PHONE)
        said = self.browser.run(f"""(() => {{
          const data = {self.DATA};
          data.timelines[0].measured = {{trial: 0, note: 'none is kept', step_s: 0, ranks: []}};
          document.getElementById('timeline').replaceWith(timelineSection(data));
          drawAll();
          return document.getElementById('timeline').textContent;
        }})()""")
        self.assertIn("No emulated timeline: none is kept.", said)
        self.assertIn("Row “parts”", said)
        self.assertEqual(self.browser.problems, [])

    def test_the_page_of_a_file_says_what_it_lacks(self):
        self.open("file", PHONE)
        self.assertIn("holds neither its trials nor its timelines", self.browser.run("document.querySelector('header').textContent"))
        sections = self.browser.run("[...document.querySelectorAll('section')].map(one => one.id)")
        self.assertEqual(sections, ["plans", "runners", "where", "rejected", "bill", "question"])
        text = self.browser.run("document.getElementById('plans').textContent")
        self.assertRegex(text, r"^Time against memory\d+ plans that the file names, of [\d,]+ plans that fit\.")
        self.assertIn("The least memory for a time", text)
        self.assertEqual(self.browser.problems, [])

    def test_doubted_trials_are_counted_apart(self):
        self.open("measured", DESKTOP)
        said = self.browser.run(f"""(() => {{
          const data = {self.DATA};
          data.measurements[0].doubted = 2;
          data.trials.doubted = 2;
          return [measuredSection(data).textContent, billSection(data).textContent];
        }})()""")
        self.assertIn("(and 2 doubted)", said[0])
        self.assertIn("it does not count", said[0])
        self.assertIn("2 of the measured ones are doubted and do not count", said[1])

    def test_reused_trials_are_on_the_bill(self):
        self.open("measured", DESKTOP)
        said = self.browser.run(f"""(() => {{
          const data = {self.DATA};
          const texts = [];
          for (const reused of [0, 1, 12]) {{
            data.answer.search.reused_trials = reused;
            texts.push(billSection(data).textContent);
          }}
          return texts;
        }})()""")
        self.assertNotIn("Trials reused", said[0])
        self.assertIn("Trials reused1 measurement of earlier studies", said[1])
        self.assertIn("Trials reused12 measurements of earlier studies", said[2])

    def test_it_is_printed_light_and_in_the_width_of_paper(self):
        self.open("measured", PHONE, dark=True)
        path = os.path.join(self.directory.name, "printed.pdf")
        self.browser.run("""window.addEventListener('beforeprint', () => {
          const style = getComputedStyle(document.documentElement);
          window.printed = [style.getPropertyValue('--paper').trim(), document.getElementById('chart-plans').clientWidth];
        })""")
        self.browser.print(path)
        paper, width = self.browser.run("window.printed")
        self.assertEqual(paper, "#ffffff")
        self.assertGreater(width, 600)
        with open(path, "rb") as file:
            self.assertTrue(file.read().startswith(b"%PDF"))
        self.assertEqual(self.browser.run("getComputedStyle(document.body).backgroundColor"), "rgb(18, 22, 28)")
        self.assertEqual(self.browser.problems, [])


if __name__ == "__main__":
    unittest.main()
