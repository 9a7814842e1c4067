//! The page in a real browser.

use std::path::{Path, PathBuf};

use plimsoll_analysis::view;
use plimsoll_record::data::{EventClass, FaultKind, FaultSpan, Run, Sample};
use serde_json::json;

use crate::browser::Browser;
use crate::forms::slow_beside_a_disk;
use crate::pages::place;
use crate::{faulted, recorded, study};

/// Writes the page of a run, and returns its path.
pub fn page(name: &str, run: &Run) -> PathBuf {
    let path = place().join(format!("{name}.html"));
    std::fs::write(&path, plimsoll_report::html(&view(run))).unwrap();
    path
}

/// True once every plot is there.
pub const DRAWN: &str = "document.querySelectorAll('#stack .uplot').length >= 3";

/// Returns for each plot its title, the number of its canvas's painted pixels, and the number of their colours.
const PAINTED: &str = "[...document.querySelectorAll('.plot')].map((plot) => {
    const canvas = plot.querySelector('canvas');
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    let painted = 0;
    for (let at = 0; at < pixels.length; at += 4) {
        if (pixels[at + 3] > 0) { painted += 1; colours.add(pixels[at] << 16 | pixels[at + 1] << 8 | pixels[at + 2]); }
    }
    return [plot.querySelector('p').textContent, painted, colours.size];
})";

/// Pixels of the opaque colour that each line of each plot has in the style sheet: a series that is not drawn has none.
const LINES: &str =
    "[...document.querySelectorAll('.plot')].filter((plot) => plot.querySelector('.u-legend')).flatMap((plot) => {
    const canvas = plot.querySelector('canvas');
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    return [...plot.querySelectorAll('.u-legend .u-series:not(:first-child)')].map((entry) => {
        const [r, g, b] = getComputedStyle(entry.querySelector('.u-marker')).backgroundColor.match(/\\d+/g).map(Number);
        let n = 0;
        for (let at = 0; at < pixels.length; at += 4) {
            if (Math.abs(pixels[at] - r) + Math.abs(pixels[at + 1] - g) + Math.abs(pixels[at + 2] - b) < 60) n += 1;
        }
        return [plot.querySelector('p').textContent + entry.textContent, n];
    });
})";

fn open_all(browser: &mut Browser) {
    browser.eval("document.querySelectorAll('details').forEach((details) => { details.open = true; })");
    browser.wait_for(
        "[...document.querySelectorAll('#host details > div')].every((inside) => inside.childElementCount > 0)",
    );
}

/// Changes the width of the window or the colour scheme, and waits until the plots are drawn again.
fn look_again(browser: &mut Browser, width: u32, height: u32, scheme: &str) {
    browser.eval("document.querySelector('.uplot').dataset.old = ''");
    browser.look(width, height, scheme);
    browser.wait_for("!document.querySelector('[data-old]')");
}

#[test]
fn the_page_of_a_run_is_drawn_printed_and_operated_and_asks_for_nothing() {
    let run = study::complete();
    let path = page("complete", &run);
    let mut browser = Browser::start();
    browser.show(&path, 1200, 900, "light", DRAWN);
    every_plot_is_drawn_and_colours_follow_the_system_while_the_page_is_open(&mut browser);
    // Opened again, so that the paper has what a page has that was not operated.
    browser.show(&path, 1400, 900, "dark", DRAWN);
    on_paper_it_is_light_and_complete_whatever_the_screen_is(&mut browser);
    browser.show(&path, 1200, 900, "light", DRAWN);
    the_keyboard_reaches_everything_and_moves_the_cursor(&mut browser);
    a_zoom_by_mouse_is_shared_by_all_plots_on_the_time_axis(&mut browser);
    all_text_and_tables_stand_without_javascript(&mut browser, &path, &run);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let address = format!("file://{}", path.canonicalize().unwrap().display());
    assert!(!browser.requests().is_empty());
    assert!(browser.requests().iter().all(|url| *url == address), "{:?}", browser.requests());
}

fn every_plot_is_drawn_and_colours_follow_the_system_while_the_page_is_open(browser: &mut Browser) {
    let background = "getComputedStyle(document.body).backgroundColor";
    let sample = "document.querySelector('#stack canvas').toDataURL()";
    let light = (browser.eval(background), browser.eval(sample));
    for scheme in ["light", "dark"] {
        if scheme == "dark" {
            look_again(browser, 1200, 900, scheme);
            browser.wait_for(&format!("{background} !== {}", light.0));
            assert_ne!(browser.eval(sample), light.1);
        }
        browser.picture(&place().join(format!("complete-{scheme}.png")));
        open_all(browser);
        let painted = browser.eval(PAINTED);
        let painted = painted.as_array().unwrap();
        assert!(painted.len() >= 10, "{painted:?}");
        for plot in painted {
            assert!(plot[1].as_u64().unwrap() > 1_000 && plot[2].as_u64().unwrap() > 10, "{scheme}: {plot}");
        }
        for line in browser.eval(LINES).as_array().unwrap() {
            assert!(line[1].as_u64().unwrap() > 10, "{scheme}: no pixels of {line}");
        }
        // Contrast of every text with what is behind it, by the formula of WCAG 2: at least 4.5 for all of it.
        assert_eq!(browser.eval(CONTRAST), json!([]), "{scheme}");
    }
    let rgb = browser.eval(&format!("{background}.match(/\\d+/g).map(Number)"));
    assert!(rgb.as_array().unwrap().iter().all(|part| part.as_u64().unwrap() < 60), "{rgb}");
}

#[test]
fn pages_fit_windows_of_all_widths() {
    let mut browser = Browser::start();
    the_answer_stands_above_the_fold_and_legends_have_values_before_anything_is_pointed_at(&mut browser);
    nothing_sticks_out_of_a_narrow_window(&mut browser);
    no_text_is_cut_off_at_1280_pixels_in_light_and_dark(&mut browser);
    nodes_of_a_cluster_have_small_plots_beside_one_another_and_below_where_there_is_no_room(&mut browser);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

fn the_answer_stands_above_the_fold_and_legends_have_values_before_anything_is_pointed_at(browser: &mut Browser) {
    let paths = [page("answer", &study::complete()), page("answer-line", &recorded::searched())];
    for (path, width) in paths.iter().flat_map(|path| [1280, 400].map(|width| (path, width))) {
        if width == 1280 {
            browser.show(path, width, 900, "light", "document.querySelectorAll('.plot .u-legend').length >= 2");
        } else {
            look_again(browser, width, 900, "light");
        }
        let names = "[...document.querySelectorAll('.answer dl')].map((line) => [...line.querySelectorAll('dt')].map((name) => name.textContent).join(' '))";
        let names = browser.eval(names);
        assert!(
            names.as_array().unwrap().iter().all(|line| {
                let line = line.as_str().unwrap();
                line.contains("ops/s p50 p95 p99")
            }),
            "{names}"
        );
        let bottom = "document.querySelector('.answer').getBoundingClientRect().bottom";
        assert!(browser.eval(bottom).as_f64().unwrap() < 900.0, "at {width}");
        let empty = "[...document.querySelectorAll('.u-legend .u-series')].filter((entry) => ['', '–', '--'].includes(entry.querySelector('.u-value').textContent)).map((entry) => entry.closest('.plot').textContent)";
        assert_eq!(browser.eval(empty), json!([]), "at {width}");
    }
}

#[test]
fn charts_of_a_line_of_moments_and_of_sweeps_are_drawn() {
    let mut browser = Browser::start();
    the_load_line_is_drawn_over_the_rates_that_were_asked_for(&mut browser);
    points_of_slow_moments_are_not_joined_over_the_time_between_them(&mut browser);
    sweeps_have_boxes_charts_and_a_law(&mut browser);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

fn the_load_line_is_drawn_over_the_rates_that_were_asked_for(browser: &mut Browser) {
    let path = page("line", &recorded::searched());
    for scheme in ["light", "dark"] {
        browser.show(&path, 1200, 900, scheme, "document.querySelectorAll('.chart .uplot').length === 2");
        browser.picture(&place().join(format!("line-{scheme}.png")));
        for line in browser.eval(LINES).as_array().unwrap() {
            assert!(line[1].as_u64().unwrap() > 10, "{scheme}: no pixels of {line}");
        }
    }
    browser.eval("document.querySelector('.chart .plot').focus()");
    browser.press("ArrowRight", 39, "");
    browser.wait_for("document.getElementById('readout').textContent.includes('done ')");
}

fn points_of_slow_moments_are_not_joined_over_the_time_between_them(browser: &mut Browser) {
    let run = slow_beside_a_disk();
    let path = page("moments", &run);
    browser.show(&path, 1200, 900, "light", "document.querySelectorAll('.chart .uplot').length >= 1");
    browser.picture(&place().join("moments.png"));
    let lines = browser.eval(LINES);
    let is_moments = |line: &&serde_json::Value| line[0].as_str().is_some_and(|name| name.contains("slow moments"));
    let drawn = lines.as_array().unwrap().iter().find(is_moments).unwrap();
    // Four points. A line from the first to the last would have twice as many pixels.
    assert!((10..300).contains(&drawn[1].as_u64().unwrap()), "{drawn}");
}

fn sweeps_have_boxes_charts_and_a_law(browser: &mut Browser) {
    let (clients, grid) =
        (page("sweep", &recorded::swept(&[])), page("grid", &recorded::swept(&[100, 200, 400, 1_000])));
    for (path, scheme, charts, boxed, bars) in [(&clients, "light", 1, 7, 0), (&grid, "dark", 7, 0, 28)] {
        browser.look(1200, 900, scheme);
        browser.open(path);
        browser.wait_for(&format!("document.querySelectorAll('.chart .uplot').length === {charts}"));
        let boxes = "[...document.querySelectorAll('.boxes rect')].filter((box) => box.getBoundingClientRect().width > 5).length";
        assert_eq!(browser.eval(boxes), boxed);
        // Seven groups of four bars.
        let drawn = "[...document.querySelectorAll('.bars > svg rect')].filter((bar) => bar.getBoundingClientRect().height > 5).length";
        assert_eq!(browser.eval(drawn), bars);
        browser.picture(&path.with_extension("png"));
    }
}

/// Texts with too little contrast.
pub const CONTRAST: &str = "(() => {
    const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((part) => { part /= 255; return part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4; })
        .reduce((sum, part, at) => sum + part * [.2126, .7152, .0722][at], 0);
    const behind = (element) => {
        const colours = [];
        for (let at = element; at; at = at.parentElement) {
            const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
            if (a > 0) colours.push([r, g, b, a]);
            if (a === 1) break;
        }
        return colours.reduceRight((under, [r, g, b, a]) => under ? [r, g, b].map((part, at) => part * a + under[at] * (1 - a)) : [r, g, b], null);
    };
    const poor = new Set();
    for (const element of document.querySelectorAll('main *, header *, footer *')) {
        if (!element.checkVisibility() || element.closest('.unseen, canvas, svg, .u-axis')) continue;
        if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
        const a = light(parse(getComputedStyle(element).color)), b = light(behind(element) ?? [255, 255, 255]);
        const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        if (contrast < 4.5) poor.add(`${element.tagName}.${element.className} ${contrast.toFixed(2)}`);
    }
    return [...poor];
})()";

fn all_text_and_tables_stand_without_javascript(browser: &mut Browser, path: &Path, run: &Run) {
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.open(path);
    let text = browser.eval("document.body.innerText");
    let text = text.as_str().unwrap();
    let view = view(run);
    for wanted in [view.verdict.sentence.as_str(), "need JavaScript, which is off", "load, index keys", "1.91 ×"] {
        assert!(text.contains(wanted), "{wanted} is not there");
    }
    assert!(browser.eval("document.querySelectorAll('table').length").as_u64().unwrap() >= 8);
    assert_eq!(browser.eval("document.querySelectorAll('.uplot').length"), 0);
    // The frames of the plots are not there either: nothing but empty boxes.
    assert_eq!(browser.eval("document.getElementById('charts').checkVisibility()"), false);
}

fn nothing_sticks_out_of_a_narrow_window(browser: &mut Browser) {
    let path = page("complete-narrow", &study::complete());
    let broken = page("broken-narrow", &study::broken());
    for path in [&path, &broken] {
        // A page that is opened in a window, and one whose window becomes narrower.
        for (width, is_opened) in [(320, true), (1600, true), (768, false), (400, false)] {
            if is_opened {
                browser.show(path, width, 800, "light", DRAWN);
            } else {
                look_again(browser, width, 800, "light");
            }
            open_all(browser);
            let (inner, outer) = (browser.eval("document.documentElement.scrollWidth"), browser.eval("innerWidth"));
            assert_eq!(inner, outer, "{} at {width}", path.display());
            let cut = "[...document.querySelectorAll('.plot')].filter((plot) => plot.scrollWidth > plot.clientWidth).map((plot) => plot.textContent)";
            assert_eq!(browser.eval(cut), json!([]), "plots are cut off at {width}");
            if width == 400 {
                browser.picture(&path.with_extension("png"));
            }
        }
    }
}

/// Visible elements with text, part of which their own box hides. Texts for assistive technology alone are no part of them.
const CUT_OFF: &str = "[...document.querySelectorAll('body *')].filter((element) => {
    const hides = ['hidden', 'clip'].includes(getComputedStyle(element).overflowX);
    const isRead = hides && element.checkVisibility() && !element.closest('.unseen') && element.textContent.trim();
    return isRead && element.scrollWidth > element.clientWidth;
}).map((element) => `${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 60)}`)";

fn no_text_is_cut_off_at_1280_pixels_in_light_and_dark(browser: &mut Browser) {
    let runs = [
        ("complete", study::complete()),
        ("broken", study::broken()),
        ("killed", study::killed()),
        ("line", recorded::searched()),
        ("sweep", recorded::swept(&[])),
        ("grid", recorded::swept(&[100, 200, 400, 1_000])),
        ("faults", faulted::killed_primary()),
        ("moments", slow_beside_a_disk()),
    ];
    for (name, run) in &runs {
        let path = page(&format!("{name}-1280"), run);
        browser.show(&path, 1280, 900, "light", "document.querySelectorAll('.uplot').length >= 1");
        open_all(browser);
        for scheme in ["light", "dark"] {
            if scheme == "dark" {
                look_again(browser, 1280, 900, scheme);
            }
            assert_eq!(browser.eval(CUT_OFF), json!([]), "{name}, {scheme}");
            let widths = (browser.eval("document.documentElement.scrollWidth"), browser.eval("innerWidth"));
            assert_eq!(widths.0, widths.1, "{name} scrolls sideways, {scheme}");
        }
    }
    // The check sees a text that is cut off.
    browser.eval(
        "(() => { const box = document.querySelector('.verdict .sentence'); box.style.overflow = 'hidden'; \
         box.style.whiteSpace = 'nowrap'; box.style.width = '40px'; })()",
    );
    assert_eq!(browser.eval(&format!("{CUT_OFF}.length")), 1);
}

#[test]
fn pauses_of_the_machine_are_shaded_in_every_plot_over_time() {
    let paths = [page("unpaused", &study::complete()), page("paused", &study::paused(study::complete()))];
    // Pixels of each plot over time that have the colour of a pause, whatever is behind it.
    let shaded = "[...document.querySelectorAll('#stack .plot')].map((plot) => {
        const canvas = plot.querySelector('canvas');
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let n = 0;
        for (let at = 0; at < pixels.length; at += 4) {
            if (pixels[at] - pixels[at + 1] > 30 && pixels[at + 2] - pixels[at + 1] > -5) n += 1;
        }
        return n;
    })";
    let mut browser = Browser::start();
    for (width, scheme) in [(1200, "light"), (400, "dark")] {
        let [without, with] = paths.each_ref().map(|path| {
            browser.show(path, width, 900, scheme, DRAWN);
            browser.picture(
                &path.with_file_name(format!("{}-{width}-{scheme}.png", path.file_stem().unwrap().to_str().unwrap())),
            );
            browser.eval(shaded).as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(without.len(), with.len());
        for (at, (without, with)) in without.iter().zip(&with).enumerate() {
            assert!(*with > without + 100, "plot {at} at {width}, {scheme}: {with} pixels, {without} without pauses");
        }
        assert_eq!(browser.eval("document.documentElement.scrollWidth"), browser.eval("innerWidth"), "at {width}");
    }
}

#[test]
fn commands_for_servers_are_lines_and_faults_are_shaded_in_every_plot_over_time() {
    let [mut acted, mut broken] = [study::complete(), study::complete()];
    let at_ns = acted.trials[0].phases[1].header.start_ns;
    acted.events.push(study::event(at_ns, Some(0), EventClass::Command, "lab pause redis 1"));
    // The last trial's drive of some seconds.
    let drive = &broken.trials[4].phases[5].header;
    let (phase, begun_ns) = (drive.ordinal, drive.start_ns + 2 * study::SECOND_NS);
    let healed_ns = begun_ns + 4 * study::SECOND_NS;
    broken.trials[4].faults.push(FaultSpan {
        trial: 4,
        phase,
        taken_ns: Some(begun_ns),
        healing_ns: Some(healed_ns),
        healed_ns: Some(healed_ns),
        ..FaultSpan::begun(FaultKind::Pause, "pause all at 2s for 4s", "the server", begun_ns)
    });
    let paths = [page("not-acted", &study::complete()), page("acted", &acted), page("shaded", &broken)];
    // Pixels of each plot over time that have the colour of such a line, and that of a shaded fault over a drive.
    let pixels = "[...document.querySelectorAll('#stack .plot')].map((plot) => {
        const canvas = plot.querySelector('canvas');
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let line = 0, shade = 0;
        for (let at = 0; at < pixels.length; at += 4) {
            const red = pixels[at] - pixels[at + 1], blue = pixels[at + 2] - pixels[at + 1];
            if (blue > 60 && red > 30) line += 1;
            else if (blue > 0 && red > 10) shade += 1;
        }
        return [line, shade];
    })";
    let mut browser = Browser::start();
    let [without, with, shaded] = paths.each_ref().map(|path| {
        browser.show(path, 1200, 900, "light", DRAWN);
        serde_json::from_value::<Vec<(u64, u64)>>(browser.eval(pixels)).unwrap()
    });
    assert_eq!([with.len(), shaded.len()], [without.len(); 2]);
    for (at, (without, with)) in without.iter().zip(&with).enumerate() {
        assert!(with.0 > without.0 + 50, "plot {at}: {with:?} pixels, {without:?} without a command");
    }
    // A line alone is no more than two pixels wide.
    for (at, (line, shaded)) in with.iter().zip(&shaded).enumerate() {
        assert!(shaded.1 > line.1 + 1_000, "plot {at}: {shaded:?} pixels, {line:?} with a line alone");
    }
}

fn the_keyboard_reaches_everything_and_moves_the_cursor(browser: &mut Browser) {
    browser.eval("document.querySelectorAll('a[href], select, button, summary, [tabindex=\"0\"], th[role=switch]').forEach((element, at) => { element.dataset.stop = at; })");
    let wanted = browser
        .eval("[...document.querySelectorAll('[data-stop]')].filter((element) => element.checkVisibility()).map((element) => element.dataset.stop)");
    let wanted: Vec<_> = wanted.as_array().unwrap().clone();
    assert!(wanted.len() > 40, "{wanted:?}");
    let mut reached = Vec::new();
    for _ in 0..wanted.len() + 5 {
        browser.press("Tab", 9, "");
        reached.push(browser.eval("document.activeElement.dataset.stop ?? null"));
    }
    let missed: Vec<_> = wanted.iter().filter(|stop| !reached.contains(stop)).collect();
    assert!(missed.is_empty(), "never reached by Tab: {missed:?}");
    // The pointer of all plots on the time axis goes along, and the place is said.
    browser.eval("document.querySelector('#stack .plot').focus()");
    for _ in 0..6 {
        browser.press("ArrowRight", 39, "");
    }
    browser.wait_for("/\\d+\\.\\d\\d s · (sqlite|fjall)/.test(document.getElementById('readout').textContent)");
    let lefts = "[...document.querySelectorAll('#stack .u-cursor-x')].map((line) => Math.round(new DOMMatrix(getComputedStyle(line).transform).e))";
    let lefts = browser.eval(lefts);
    let lefts = lefts.as_array().unwrap();
    assert!(lefts.len() >= 3 && lefts[0].as_i64().unwrap() > 0, "{lefts:?}");
    assert!(lefts.iter().all(|left| (left.as_i64().unwrap() - lefts[0].as_i64().unwrap()).abs() <= 1), "{lefts:?}");
    // Zoom in, and out again.
    let ticks = "document.querySelector('#stack canvas').toDataURL()";
    let before = browser.eval(ticks);
    browser.press("+", 187, "+");
    browser.wait_for(&format!("{ticks} !== {before}"));
    browser.press("0", 48, "0");
    browser.wait_for(&format!("{ticks} === {before}"));
    // The legend's entries switch lines.
    browser.eval("document.querySelector('#stack th[role=switch]').focus()");
    browser.press("Enter", 13, "\r");
    browser.wait_for("document.querySelector('#stack th[role=switch]').getAttribute('aria-checked') === 'false'");
}

fn a_zoom_by_mouse_is_shared_by_all_plots_on_the_time_axis(browser: &mut Browser) {
    browser
        .eval("document.querySelectorAll('#stack .plot')[1].scrollIntoView({ block: 'center', behavior: 'instant' })");
    let images = "[...document.querySelectorAll('#stack canvas, #host canvas')].map((canvas) => canvas.toDataURL())";
    let before = browser.eval(images);
    let over = browser.eval("(() => { const box = document.querySelectorAll('#stack .u-over')[1].getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })()");
    let over: Vec<f64> = over.as_array().unwrap().iter().map(|part| part.as_f64().unwrap()).collect();
    let y = over[1] + over[3] / 2.0;
    browser.mouse("mouseMoved", over[0] + over[2] * 0.3, y);
    browser.mouse("mousePressed", over[0] + over[2] * 0.3, y);
    browser.mouse("mouseMoved", over[0] + over[2] * 0.4, y);
    browser.mouse("mouseMoved", over[0] + over[2] * 0.5, y);
    browser.mouse("mouseReleased", over[0] + over[2] * 0.5, y);
    let all_changed =
        format!("(() => {{ const before = {before}; return {images}.every((image, at) => image !== before[at]); }})()");
    browser.wait_for(&all_changed);
    // What is shown can be compared with the rest.
    let shown = "((line) => (line.hidden ? '' : line.textContent))(document.getElementById('explain'))";
    let command = browser.eval(shown);
    assert!(command.as_str().unwrap().contains("plimsoll explain "), "{command}");
    // A trial chosen by name zooms to it; the other kind of operation redraws.
    browser.eval("(() => { const jump = document.getElementById('jump'); jump.value = '1'; jump.dispatchEvent(new Event('change')); })()");
    assert_eq!(browser.eval("document.getElementById('jump').value"), "1");
    browser.eval("(() => { const op = document.getElementById('op'); op.value = '2'; op.dispatchEvent(new Event('change')); })()");
    browser.wait_for("document.querySelectorAll('#stack .plot p')[1].textContent.startsWith('Latency: query')");
    browser.picture(&place().join("complete-zoom.png"));
}

#[test]
fn hostile_text_stays_text_and_unhappy_runs_have_pages() {
    let broken = page("broken", &study::broken());
    let killed = page("killed", &study::killed());
    let mut empty = study::complete();
    empty.trials.clear();
    empty.samples.clear();
    empty.events.clear();
    let empty = page("empty", &empty);
    let mut browser = Browser::start();
    browser.show(&broken, 1200, 900, "light", DRAWN);
    open_all(&mut browser);
    browser.picture(&place().join("broken.png"));
    let title = browser.eval("document.title");
    assert!(title.as_str().unwrap().contains("</script><img src=x"), "{title}");
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), 0);
    // As many scripts as the page has of its own.
    assert_eq!(browser.eval("document.querySelectorAll('script').length"), 3);
    let text = browser.eval("document.body.innerText");
    assert!(text.as_str().unwrap().matches("onerror=").count() >= 5, "the texts are there, as texts");
    assert!(text.as_str().unwrap().contains("lost 312 of"));
    browser.open(&killed);
    browser.wait_for(DRAWN);
    browser.picture(&place().join("killed.png"));
    assert!(browser.eval("document.body.innerText").as_str().unwrap().contains("in phase mixed of trial 3 of 5"));
    browser.open(&empty);
    assert!(browser.eval("document.body.innerText").as_str().unwrap().contains("4"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

fn on_paper_it_is_light_and_complete_whatever_the_screen_is(browser: &mut Browser) {
    // What is drawn for the paper, kept before the screen's colours come back.
    browser.eval(
        "addEventListener('beforeprint', () => { window.paper = {
            plots: [...document.querySelectorAll('#stack .uplot, #host .uplot')].map((plot) => plot.getBoundingClientRect().width),
            background: getComputedStyle(document.documentElement).getPropertyValue('--paper').trim(),
        }; })",
    );
    let pdf = browser.call("Page.printToPDF", json!({ "paperWidth": 8.27, "paperHeight": 11.69 }));
    assert!(pdf["data"].as_str().unwrap().len() > 50_000);
    let paper = browser.eval("window.paper");
    let plots = paper["plots"].as_array().unwrap();
    assert!(plots.len() >= 8 && plots.iter().all(|width| width.as_f64().unwrap() <= 690.0), "{paper}");
    assert_eq!(paper["background"], "#fcfcfa");
    // And back on the screen it is dark and wide again.
    browser.wait_for("!document.documentElement.classList.contains('on-paper')");
    browser.wait_for("document.querySelector('#stack .uplot').getBoundingClientRect().width > 900");
}

fn nodes_of_a_cluster_have_small_plots_beside_one_another_and_below_where_there_is_no_room(browser: &mut Browser) {
    let mut run = recorded::transactions();
    let first = run.series.len() as u32;
    for node in ["galera node 1", "galera node 2", "galera node 3"] {
        run.series.extend(["fsyncs", "rows_read"].map(|name| study::series_of("store", node, name, "1/s")));
    }
    for at_s in 1..5 {
        let values = (0..6).map(|at| (first + at, f64::from(at_s * (at + 1)))).collect();
        run.samples.push(Sample { at_ns: u64::from(at_s) * 1_000_000_000, values, ..Sample::default() });
    }
    run.samples.sort_by_key(|sample| sample.at_ns);
    let path = page("nodes", &run);
    let tops = "[...document.querySelectorAll('.nodes .plot')].map((plot) => [plot.querySelector('p').textContent, plot.getBoundingClientRect().top])";
    for (width, rows) in [(1280, 1), (400, 3)] {
        browser.show(&path, width, 900, "light", "document.querySelectorAll('.nodes .uplot').length == 3");
        let plots = browser.eval(tops);
        let plots: Vec<(String, f64)> = serde_json::from_value(plots).unwrap();
        let titles: Vec<&str> = plots.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["galera node 1 a second", "galera node 2 a second", "galera node 3 a second"]);
        let mut places: Vec<i64> = plots.iter().map(|(_, top)| *top as i64).collect();
        places.dedup();
        assert_eq!(places.len(), rows, "{plots:?}");
    }
}
