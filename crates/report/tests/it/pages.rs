//! Text, page and JSON without a browser.

use plimsoll_analysis::view;

use crate::study;

/// Where the pages and screenshots of the tests are left, to be looked at.
pub fn place() -> std::path::PathBuf {
    let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/report-pages");
    std::fs::create_dir_all(&place).unwrap();
    place
}

#[test]
fn the_page_of_the_study_is_small() {
    for (name, run) in [("complete", study::complete()), ("killed", study::killed()), ("broken", study::broken())] {
        let view = view(&run);
        let html = plimsoll_report::html(&view);
        std::fs::write(place().join(format!("{name}.html")), &html).unwrap();
        std::fs::write(place().join(format!("{name}.json")), plimsoll_report::json(&view)).unwrap();
        std::fs::write(place().join(format!("{name}.txt")), plimsoll_report::terminal(&view, false, 120)).unwrap();
        println!("{name}: {} bytes", html.len());
        assert!(html.len() < 400_000, "{name}: {} bytes", html.len());
    }
}
