//! `cargo xtask pictures [PROGRAM]`: makes the pictures of README and book again, from a run on this machine.
//!
//! The run writes its page, and its answer is printed, for README. A headless browser shows the page, or one section of
//! it, in light and in dark.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::{built, line_of, output};
use crate::setup::CHROMIUM;

/// Run that the pictures show. It takes under a minute.
const RUN: [&str; 10] = ["drive", "kv", "--on", "redis", "--clients", "8", "--for", "10s", "--goal", "p99=20ms"];

/// Picture of a page.
struct Picture {
    name: &'static str,
    /// Rule of style that hides the rest of the page; empty for its top.
    hides: &'static str,
    /// Pixels.
    height: u32,
}

const PICTURES: [Picture; 2] = [
    Picture { name: "report", hides: "", height: 1000 },
    Picture { name: "over-time", hides: "body > :not(main), main > :not(#time) { display: none }", height: 920 },
];
/// Schemes of colours, with Chromium's number of each.
const SCHEMES: [(&str, u32); 2] = [("dark", 0), ("light", 1)];
/// Pixels.
const WIDTH: u32 = 1200;
/// Largest size of a picture, in bytes.
const LARGEST: u64 = 300_000;
/// Place of the pictures in the repository.
const PLACE: &str = "docs/images";

/// Makes all pictures, with the program that `arguments` name, or a new release build.
pub fn pictures(root: &Path, arguments: &[String]) -> Result {
    let browser = browser(CHROMIUM)?;
    let program = match arguments {
        [] => built(root, "release")?,
        [program] if !program.starts_with('-') => PathBuf::from(program),
        _ => return Err("cargo xtask pictures [PROGRAM]: PROGRAM is a built plimsoll".to_owned()),
    };
    let place = std::env::temp_dir().join(format!("plimsoll-pictures-{}", std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    fs::create_dir_all(&place).map_err(failed)?;
    let made = make(root, &program, browser, &place);
    let removed = fs::remove_dir_all(&place).map_err(failed);
    made.and(removed)
}

/// Returns the first of `paths` that exists.
fn browser<'a>(paths: &'a [&'a str]) -> Result<&'a Path> {
    let there = paths.iter().map(Path::new).find(|path| path.exists());
    there.ok_or_else(|| format!("no browser: none of {} exists\n  → apt-get install chromium", paths.join(", ")))
}

fn make(root: &Path, program: &Path, browser: &Path, place: &Path) -> Result {
    let said = output(Command::new(program).args(RUN).env("XDG_STATE_HOME", place))?;
    println!("{said}");
    let page = said.lines().find_map(|line| line.strip_prefix("page ")).map(str::trim);
    let page = page.ok_or_else(|| format!("plimsoll {} names no page:\n{said}", RUN.join(" ")))?;
    let page = fs::read_to_string(page).map_err(|error| format!("{page}: {error}"))?;
    for picture in PICTURES {
        let shown = place.join("shown.html");
        fs::write(&shown, part(&page, picture.hides)?).map_err(|error| format!("{}: {error}", shown.display()))?;
        for (scheme, number) in SCHEMES {
            let path = root.join(PLACE).join(format!("{}-{scheme}.png", picture.name));
            line_of(
                Command::new("timeout")
                    .arg("60")
                    .arg(browser)
                    .args(["--headless", "--disable-gpu", "--no-sandbox", "--no-first-run", "--hide-scrollbars"])
                    .args(["--disable-background-networking", "--virtual-time-budget=5000"])
                    .arg(format!("--user-data-dir={}", place.join("profile").display()))
                    .arg(format!("--window-size={WIDTH},{}", picture.height))
                    .arg(format!("--blink-settings=preferredColorScheme={number}"))
                    .arg(format!("--screenshot={}", path.display()))
                    .arg(format!("file://{}", shown.display())),
            )?;
            println!("{}", path.display());
        }
    }
    let wrong = wrong(root)?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Returns `page` with `rule` in place of its policy, which permits no style but its own.
fn part(page: &str, rule: &str) -> Result<String> {
    let policy = page.find("<meta http-equiv=\"Content-Security-Policy\"");
    let end = policy.and_then(|start| page[start..].find('>').map(|length| start + length + 1));
    let (start, end) = policy.zip(end).ok_or("the page has no policy to replace")?;
    Ok(format!("{}<style>{rule}</style>{}", &page[..start], &page[end..]))
}

/// Returns the faults of the pictures in the repository: size, and pages that do not show them.
fn wrong(root: &Path) -> Result<Vec<String>> {
    let failed = |error: std::io::Error| format!("{PLACE}: {error}");
    let mut pages = fs::read_to_string(root.join("README.md")).map_err(failed)?;
    for page in fs::read_dir(root.join("docs/src")).map_err(failed)? {
        pages.push_str(&fs::read_to_string(page.map_err(failed)?.path()).map_err(failed)?);
    }
    let mut wrong = Vec::new();
    for (picture, (scheme, _)) in PICTURES.iter().flat_map(|picture| SCHEMES.map(|scheme| (picture, scheme))) {
        let name = format!("{}-{scheme}.png", picture.name);
        let image = fs::read(root.join(PLACE).join(&name)).map_err(|error| format!("{PLACE}/{name}: {error}"))?;
        if image.len() as u64 > LARGEST {
            wrong.push(format!("{PLACE}/{name} has {} bytes, more than {LARGEST}", image.len()));
        }
        // The header of a PNG has width and height at this place.
        let pixels = [WIDTH, picture.height].map(u32::to_be_bytes).concat();
        if image.get(16..24) != Some(&pixels[..]) {
            wrong.push(format!("{PLACE}/{name} is no PNG of {WIDTH} by {} pixels", picture.height));
        }
        if !pages.contains(&format!("images/{name}\"")) {
            wrong.push(format!("{PLACE}/{name} is in no page"));
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_have_their_size_and_a_page() {
        let none: [&str; 0] = [];
        assert_eq!(wrong(&crate::root()).unwrap(), none);
    }

    #[test]
    fn a_missing_browser_and_a_page_without_a_policy_are_named() {
        let said = browser(&["/nowhere/chromium"]).unwrap_err();
        assert_eq!(said, "no browser: none of /nowhere/chromium exists\n  → apt-get install chromium");
        assert_eq!(browser(&["/nowhere/chromium", "/bin/sh"]).unwrap(), Path::new("/bin/sh"));
        assert_eq!(part("<head></head>", "").unwrap_err(), "the page has no policy to replace");
        let page = "<meta charset=x><meta http-equiv=\"Content-Security-Policy\" content=\"y\"><p>";
        assert_eq!(part(page, "a {}").unwrap(), "<meta charset=x><style>a {}</style><p>");
    }
}
