# SPDX-License-Identifier: Apache-2.0
"""What the programs print, and the rows that are made of it."""

MS = 1e6
P10, MEDIAN, P90, P99 = 1, 2, 3, 4  # in a series


class Results:
    """Series by (line, name) and single values by (line, name), from records as in bench.h."""

    def __init__(self):
        self.series, self.values = {}, {}

    def add(self, record):
        kind, line, name, *rest = record.split("\t")
        if kind == "time":
            rounds, *times = (int(word) for word in rest)
            self.series[line, name] = (rounds, *times)
        else:
            self.values[line, name] = float(rest[0])

    def ratio(self, line, ours, other, of=MEDIAN):
        return self.series[line, ours][of] / self.series[line, other][of]

    def times(self, line, *names):
        return "; ".join(f"{name} {format_ms(self.series[line, name])}" for name in names)


def format_ms(series):
    rounds, _, median, p90, p99 = series
    digits = 0 if median > 100 * MS else 2 if median > 0.2 * MS else 3
    words = " / ".join(f"{t / MS:.{digits}f}" for t in (median, p90, p99))
    return f"{words} ms ({rounds})"


class Line:
    """One row: `figure` makes the number from the results, `detail` the text beside it. `part` is what
    measures it."""

    def __init__(self, number, part, what, figure, target, detail, at_least=False, form="{:.2f}x"):
        self.number, self.part, self.what, self.target = str(number), part, what, target
        self.figure, self.detail, self.at_least, self.form = figure, detail, at_least, form

    def target_text(self):
        return ("at least " if self.at_least else "at most ") + self.form.format(self.target)

    def row(self, results):
        try:
            figure, detail = self.figure(results), self.detail(results)
        except KeyError:
            return [self.number, self.what, "not measured", self.target_text(), "?", ""]
        met = figure >= self.target if self.at_least else figure <= self.target
        verdict = "yes" if met else "**no**"
        return [self.number, self.what, self.form.format(figure), self.target_text(), verdict, detail]


def timed(number, part, what, line, ours, other, target, *beside, form="{:.2f}x"):
    """The ratio of two medians."""
    return Line(
        number,
        part,
        what,
        lambda r: r.ratio(line, ours, other),
        target,
        lambda r: f"fastest tenth {form.format(r.ratio(line, ours, other, P10))}; " + r.times(line, ours, other, *beside),
        form=form,
    )


def markdown(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for i, row in enumerate(rows):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
        if i == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"


def line_table(lines, results):
    head = ["", "what", "measured", "target", "met", "medians / p90 / p99 (rounds), for information"]
    yield from markdown([head, *(line.row(results) for line in lines)])


def run_program(process, results):
    """Reads the records of a program that was started; whether it went well."""
    with process:
        try:
            for record in process.stdout:
                results.add(record.rstrip("\n"))
        except BaseException:
            process.terminate()
            raise
    return process.returncode == 0
