"""What every page of the lab must be: drawn, complete in itself, and readable on a desktop and on a telephone."""

from __future__ import annotations

import pathlib

from harness.browser import Browser

WIDTHS = (1280, 390)

# Of each figure: its title, how its drawings are shown, what is drawn in them, and the texts that do not fit.
FIGURES = """
[...document.querySelectorAll('figure')].map(figure => {
  const shown = [...figure.querySelectorAll('svg[role=img]')].filter(svg => svg.getBoundingClientRect().width > 0);
  const result = {title: figure.querySelector('figcaption').textContent, shown: shown.map(svg => svg.className.baseVal)};
  if (shown.length !== 1) return result;
  const outer = shown[0].getBoundingClientRect();
  const large = [...shown[0].querySelectorAll('.bar, .area, .line, .mark')].filter(shape => {
    const box = shape.getBoundingClientRect();
    return box.width > 0 && box.height + box.width > 2 && getComputedStyle(shape).visibility === 'visible';
  });
  result.shapes = large.length;
  result.plain = large.filter(shape => {
    const style = getComputedStyle(shape);
    return [style.fill, style.stroke].every(c => c === 'none' || c === 'rgb(0, 0, 0)');
  }).length;
  result.letters = Math.min(...[...shown[0].querySelectorAll('text')].map(
    text => parseFloat(getComputedStyle(text).fontSize) * outer.width / shown[0].viewBox.baseVal.width));
  result.outside = [...shown[0].querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < outer.left - 12 || box.right > outer.right + 12 || box.bottom > outer.bottom + 2;
  }).map(text => text.textContent);
  return result;
})
"""


def check_report(browser: Browser, path: str | pathlib.Path, figures_min: int = 1):
    """Fails unless the page is all that, in the light and in the dark."""
    for width in WIDTHS:
        for dark in (False, True):
            page = browser.open(path, width, dark)
            where = f"{path} at {width} px, {'dark' if dark else 'light'}"
            figures = page.evaluate(FIGURES)
            assert len(figures) >= figures_min, f"{where}: {len(figures)} figures"
            for figure in figures:
                of = f"{where}, {figure['title']}: {figure}"
                assert figure["shown"] == ["wide" if width > 640 else "narrow"], of
                assert figure["shapes"] > 0 and figure["plain"] == 0, of
                assert figure["outside"] == [], of
                assert figure["letters"] > 10, of
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{where}: wider than the window"
            assert page.evaluate("document.querySelector('.conclusion').textContent.trim().length > 20"), where
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            brightness = int(ground.removeprefix("rgb(").split(",")[0])
            assert (brightness < 60) == dark, f"{where}: ground {ground}"
            assert page.complaints() == [], where
            assert page.requests() == [], where
            page.close()
    page = browser.open(path, 1280, dark=True)
    assert page.paper().startswith(b"%PDF"), path
    page.close()
