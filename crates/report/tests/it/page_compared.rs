//! Parts of a run, and pairs of series, that are compared on its page in a real browser.

use std::path::Path;

use plimsoll_analysis::selection::{self, Selection};
use plimsoll_record::data::Run;
use serde_json::json;

use crate::browser::Browser;
use crate::page::{CONTRAST, DRAWN, page};
use crate::pages::place;
use crate::{driven, study};

/// A minute of 1,000 operations a second: in seconds 120 to 126 of the clock ten of them take 0.2 s, and the processors are
/// busy.
fn slow_for_six_seconds() -> Run {
    let mut run = driven::driven(&[1_000; 60]);
    for slice in &mut run.trials[0].phases[0].slices[20..26] {
        slice.histograms = vec![study::served(1, study::times([(1_000_000, 990), (200_000_000, 10)]))];
    }
    let noise = |second: u32| f64::from(second % 3);
    let user: Vec<f64> = (0..60).map(|at| noise(at) + if (20..26).contains(&at) { 90.0 } else { 20.0 }).collect();
    let system: Vec<f64> = (0..60).map(|at| 5.0 + noise(at)).collect();
    driven::sampled(&mut run, "cpu", "", "user", "%", &user);
    driven::sampled(&mut run, "cpu", "", "system", "%", &system);
    run
}

/// The heat map among the plots.
const HEAT: &str = "[...document.querySelectorAll('#stack .plot')].find((plot) => plot.querySelector('p').textContent.startsWith('Heat map'))";
/// Text of the command below the heat map; empty without a box.
const COMMAND: &str = "(document.querySelector('#boxed .command code')?.textContent ?? '')";

/// Presses an arrow key with Shift.
fn press_with_shift(browser: &mut Browser, key: &str, code: u32) {
    for kind in ["keyDown", "keyUp"] {
        let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 });
        browser.call("Input.dispatchKeyEvent", event);
    }
}

#[test]
fn parts_of_a_run_and_pairs_of_series_are_compared_on_its_page() {
    let run = slow_for_six_seconds();
    let path = page("boxed", &run);
    let mut browser = Browser::start();
    browser.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
    a_box_on_the_heat_map_is_compared_with_the_rest_and_names_the_command_that_does_it_in_full(
        &mut browser,
        &path,
        &run,
    );
    the_keyboard_draws_a_box_too_and_nothing_sticks_out_of_a_narrow_window(&mut browser, &path);
    any_two_series_can_be_drawn_against_each_other(&mut browser, &path);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

fn a_box_on_the_heat_map_is_compared_with_the_rest_and_names_the_command_that_does_it_in_full(
    browser: &mut Browser,
    path: &Path,
    run: &Run,
) {
    browser.show(path, 1200, 900, "light", DRAWN);
    let over = browser.eval(&format!(
        "(() => {{ const over = {HEAT}.querySelector('.u-over'); over.scrollIntoView({{ block: 'center', behavior: 'instant' }});
        const box = over.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; }})()"
    ));
    let over: Vec<f64> = over.as_array().unwrap().iter().map(|part| part.as_f64().unwrap()).collect();
    // The axis goes from 0 to 160 s. From the top to the middle of the map: what took about 15 ms or longer.
    let x = |at_s: f64| over[0] + over[2] * at_s / 160.0;
    let (top, middle) = (over[1] + 2.0, over[1] + over[3] / 2.0);
    browser.mouse("mouseMoved", x(120.4), top);
    browser.mouse("mousePressed", x(120.4), top);
    browser.mouse("mouseMoved", x(123.0), middle - 5.0);
    browser.mouse("mouseMoved", x(125.6), middle);
    browser.mouse("mouseReleased", x(125.6), middle);
    browser.wait_for("document.getElementById('boxed').classList.contains('shown')");
    browser.picture(&place().join("boxed.png"));
    let said = browser.eval("((said) => [said.getAttribute('aria-live'), said.textContent])(document.querySelector('#boxed [role=status]'))");
    assert_eq!(said[0], "polite");
    let said = said[1].as_str().unwrap();
    for part in [
        "From 120 s to 126 s: 60 operations of ",
        "0.1 % of 60,000",
        "1 % of those in this time",
        "1 series differs, most of all CPU: user (mean 91 % of 6 values",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let rows = browser.eval("[...document.querySelectorAll('#boxed tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))");
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    assert_eq!([&rows[0][0], &rows[0][1], &rows[0][2]], ["CPU: user", "91 %", "21 %"], "{rows}");
    assert_eq!(rows[0][4], "6 and 54");
    // The command selects the same operations.
    let command = browser.eval(COMMAND);
    let command = command.as_str().unwrap();
    let (start, above) = command.split_once(" --above ").unwrap();
    assert_eq!(start, format!("plimsoll explain {} --from 120s --to 126s", run.header.id));
    let above_ms: f64 = above.strip_suffix("ms").unwrap().parse().unwrap();
    let selection = Selection {
        from_ns: Some(120 * study::SECOND_NS),
        to_ns: Some(126 * study::SECOND_NS),
        above_ns: Some((above_ms * 1e6) as u64),
        ..Selection::default()
    };
    assert_eq!(selection::explain(run, &selection).unwrap().selected, 60);
    // The other plots are not zoomed by it, and the command can be copied.
    assert_eq!(browser.eval("document.getElementById('explain').hidden"), true);
    let button = browser.eval("(() => { const button = document.querySelector('#boxed button'); button.scrollIntoView({ block: 'center', behavior: 'instant' }); const box = button.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; })()");
    let [left, top] = [0usize, 1].map(|at| button[at].as_f64().unwrap());
    browser.mouse("mousePressed", left, top);
    browser.mouse("mouseReleased", left, top);
    browser.wait_for("document.querySelector('#boxed button').textContent === 'Copied'");
}

fn the_keyboard_draws_a_box_too_and_nothing_sticks_out_of_a_narrow_window(browser: &mut Browser, path: &Path) {
    for scheme in ["light", "dark"] {
        browser.show(path, 400, 800, scheme, DRAWN);
        browser.eval(&format!("{HEAT}.focus()"));
        // The first column that is shown, and the one after it; then only operations that took longer.
        press_with_shift(browser, "ArrowRight", 39);
        browser.wait_for(&format!("{COMMAND}.endsWith(' --from 100s --to 101s')"));
        press_with_shift(browser, "ArrowRight", 39);
        browser.wait_for(&format!("{COMMAND}.endsWith(' --from 100s --to 102s')"));
        press_with_shift(browser, "ArrowUp", 38);
        browser.wait_for(&format!("{COMMAND}.includes(' --from 100s --to 102s --above ')"));
        assert_eq!(browser.eval("document.documentElement.scrollWidth"), browser.eval("innerWidth"), "{scheme}");
        assert_eq!(browser.eval(CONTRAST), json!([]), "{scheme}");
        browser.picture(&place().join(format!("boxed-400-{scheme}.png")));
        // All is drawn again if the window gets another width, or its colours change.
        browser.eval("document.getElementById('op').dispatchEvent(new Event('change'))");
        browser.press("Escape", 27, "");
        browser.wait_for(&format!("{COMMAND} === ''"));
        assert_eq!(browser.eval("document.querySelector('#boxed [role=status]').textContent"), "");
        assert_eq!(browser.eval(&format!("{HEAT}.querySelector('.frame').hidden")), true);
    }
}

fn any_two_series_can_be_drawn_against_each_other(browser: &mut Browser, path: &Path) {
    for (width, scheme) in [(1200, "light"), (400, "dark")] {
        browser.show(path, width, 900, scheme, DRAWN);
        browser.eval("document.querySelector('#scatter summary').click()");
        let choose = "(at, name) => {
            const select = document.querySelectorAll('#scatter select')[at];
            select.value = [...select.options].find((option) => option.textContent === name).value;
            select.dispatchEvent(new Event('change'));
        }";
        for (at, name) in [(0, "CPU: system"), (1, "CPU: user")] {
            browser.eval(&format!("({choose})({at}, '{name}')"));
        }
        let said = "document.querySelector('#scatter [role=status]').textContent";
        browser.wait_for(&format!("{said} !== ''"));
        let said = browser.eval(said);
        let wanted = "CPU: user over CPU: system: n = 60, rank correlation 0.";
        assert!(said.as_str().unwrap().starts_with(wanted), "{said}");
        // As many pixels as three points at least have, in the colour of a first line.
        browser.wait_for(
            "(() => {
                const canvas = document.querySelector('#scatter canvas');
                const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
                const colour = getComputedStyle(document.documentElement).getPropertyValue('--line-1').trim();
                const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
                let n = 0;
                for (let at = 0; at < pixels.length; at += 4) {
                    if (Math.abs(pixels[at] - r) + Math.abs(pixels[at + 1] - g) + Math.abs(pixels[at + 2] - b) < 60) n += 1;
                }
                return n > 30;
            })()",
        );
        assert_eq!(browser.eval("document.documentElement.scrollWidth"), browser.eval("innerWidth"), "at {width}");
        browser.picture(&place().join(format!("scatter-{width}-{scheme}.png")));
    }
}
