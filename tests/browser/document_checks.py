"""What every page that quaver-view writes has to hold, for the tests of pages by instrument."""

from report_test import check
from view_test import check_fit, enliven


def text(browser, selector):
    """The words of each element."""
    return browser.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent.trim())", selector)


def rows(browser, selector):
    """Rows of the bodies of tables, without remarks."""
    return browser.run("return document.querySelectorAll(arguments[0] + ' tbody tr:not(:has(.remark))').length", selector)


def number(words):
    return int("".join(digit for digit in words if digit.isdigit()))


def tiles(browser):
    return dict(zip(text(browser, ".tile-name"), zip(text(browser, ".tile-value"), text(browser, ".tile-note"))))


def figures(browser, section):
    """Identifiers of the drawings of a section."""
    return browser.run("return [...document.querySelectorAll(`#${arguments[0]} figure`)].map((one) => one.id)", section)


def check_document(browser, sections):
    check("the page is ready", browser.run("return document.documentElement.dataset.ready || (document.scripts.length ? 'no' : 'yes')") == "yes")
    found = browser.run("return [...document.querySelectorAll('main section[id]')].map((one) => one.id)")
    check("every section is there", all(section in found for section in sections), found)
    links = browser.run("return [...document.querySelectorAll('nav a')].map((one) => one.getAttribute('href').slice(1))")
    check("every link has its section", set(links) <= set(found), (links, found))
    empty = browser.run("""
        return [...document.querySelectorAll('main section[id]')].filter((one) =>
            !one.querySelector('tbody tr, svg, li, p:not(.lead)')).map((one) => one.id)""")
    check("no section is empty", not empty, empty)
    uneven = browser.run("""
        return [...document.querySelectorAll('main table')].filter((table) => table.tHead &&
            [...table.tBodies[0].rows].some((row) => !row.querySelector('.remark') && row.cells.length !== table.tHead.rows[0].cells.length)).length""")
    check("every row has a cell for each head", uneven == 0, uneven)


def check_drawings(browser, wanted, width=1280):
    """Every drawing that is wanted is there, whole, and in colours that can be told apart, still and when it can be zoomed."""
    found = browser.run("return [...document.querySelectorAll('main figure')].map((one) => one.id)")
    check("every drawing is there", set(wanted) <= set(found), (wanted, found))
    wrong = browser.run(r"return [...document.querySelectorAll('main svg')].filter((svg) => /NaN|Infinity|undefined/.test(svg.outerHTML)).length")
    check("no drawing has a place that is no number", wrong == 0, wrong)
    keys = browser.run("""
        return [...document.querySelectorAll('.legend')].map((key) => [...key.querySelectorAll('svg')].map((one) => one.innerHTML))""")
    check("no two things of a legend look the same", all(len(key) == len(set(key)) for key in keys), keys)
    enliven(browser)
    empty = browser.run("""
        return [...document.querySelectorAll('main figure')].filter((one) => {
            const box = one.querySelector('.drawing').firstElementChild?.getBoundingClientRect();
            return !box || box.width < 100 || box.height < 40 || !one.querySelector('.drawing canvas, .drawing path, .drawing rect');
        }).map((one) => one.id)""")
    check("no drawing is empty", not empty, empty)
    check_fit(browser, width)
