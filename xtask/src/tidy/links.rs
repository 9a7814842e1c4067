//! Links between the repository's pages lead somewhere.

use std::path::{Path, PathBuf};

use super::read;
use crate::Result;

/// Reports every relative link in a Markdown file without a target.
pub fn check(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result {
    for page in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        let text = read(root, page)?;
        let directory = page.parent().unwrap_or(Path::new(""));
        for (line, target) in links(&text) {
            let path = target.split(['#', '?']).next().unwrap_or_default().replace("%20", " ");
            let elsewhere = target.contains("://") || target.starts_with("mailto:") || path.is_empty();
            if !elsewhere && !root.join(directory).join(path).exists() {
                wrong.push(format!("{}:{line}: there is no {target}", page.display()));
            }
        }
    }
    Ok(())
}

/// Line number and target of every `[text](target)` and `[name]: target` outside code.
pub fn links(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fence = None;
    for (number, line) in page.lines().enumerate() {
        let marker = line.trim_start().get(..3).filter(|marker| *marker == "```" || *marker == "~~~");
        match (fence, marker) {
            (None, Some(marker)) => fence = Some(marker),
            (Some(open), Some(marker)) if open == marker => fence = None,
            (None, None) => {
                found.extend(inline(line).into_iter().chain(definition(line)).map(|target| (number + 1, target)));
            }
            _ => {}
        }
    }
    found
}

/// Targets of `](target)` and `](<target> "title")`, but for those between backquotes.
fn inline(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    // Every second part stands between backquotes; a link around code has its `](` in the part behind it.
    for part in line.split('`').step_by(2) {
        for behind in part.split("](").skip(1) {
            // Between these, a target may have spaces.
            if let Some((target, _)) = behind.strip_prefix('<').and_then(|behind| behind.split_once('>')) {
                found.push(target);
                continue;
            }
            let end = behind.find(')').unwrap_or(behind.len());
            found.push(behind[..end].split_whitespace().next().unwrap_or_default());
        }
    }
    found
}

/// The target of a line `[name]: target`.
fn definition(line: &str) -> Option<&str> {
    let (name, target) = line.strip_prefix('[')?.split_once("]:")?;
    (!name.contains(']')).then(|| target.split_whitespace().next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::tests::repository;
    use super::*;

    #[test]
    fn only_links_that_lead_nowhere_are_named() {
        let page = "\
[good](there.md) and [its part](there.md#part), [up](../README.md \"title\"), [folder](../docs), [part](#here)
[spaces](<a page.md>), [web](https://example.org/x.md), `[code](nowhere.md)`, [`code`](there.md), ![picture](<missing.png>)
[`gone`](gone.md#part)
```
[in a fence](nowhere.md)
```
[defined]: missing-definition.md
";
        let files =
            [("docs/page.md", page), ("docs/there.md", ""), ("docs/a page.md", ""), ("README.md", "[x](docs/page.md)")];
        let root = repository(&files);
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| PathBuf::from(path)).collect();
        let mut wrong = Vec::new();
        check(root.path(), &paths, &mut wrong).unwrap();
        assert_eq!(
            wrong,
            [
                "docs/page.md:2: there is no missing.png",
                "docs/page.md:3: there is no gone.md#part",
                "docs/page.md:7: there is no missing-definition.md"
            ]
        );
    }
}
