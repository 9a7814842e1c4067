//! Links between the repository's pages lead somewhere: to a file, and to a heading if they have an anchor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::read;
use crate::Result;

/// Reports every relative link in a Markdown file without a target, and every anchor without a heading.
pub fn check(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result {
    for page in files.iter().filter(|file| is_page(file)) {
        let text = read(root, page)?;
        let directory = page.parent().unwrap_or(Path::new(""));
        for (line, target) in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = path.split('?').next().unwrap_or_default().replace("%20", " ");
            let file = if path.is_empty() { page.clone() } else { directory.join(path) };
            if !root.join(&file).exists() {
                wrong.push(format!("{}:{line}: there is no {target}", page.display()));
            } else if !anchor.is_empty() && is_page(&file) && !anchors(&read(root, &file)?).contains(anchor) {
                wrong.push(format!("{}:{line}: no heading has the anchor of {target}", page.display()));
            }
        }
    }
    Ok(())
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

/// Line number and target of every `[text](target)` and `[name]: target` outside code.
pub fn links(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in outside_fences(page) {
        // Code between backquotes may go over lines, but not over paragraphs.
        in_code &= !line.trim().is_empty();
        found.extend(inline(line, in_code).into_iter().chain(definition(line)).map(|target| (number, target)));
        in_code ^= line.matches('`').count() % 2 == 1;
    }
    found
}

/// Lines of `page` outside of fenced code, with their numbers.
fn outside_fences(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence = None;
    (1..).zip(page.lines()).filter(move |&(_, line)| {
        let marker = line.trim_start().get(..3).filter(|marker| *marker == "```" || *marker == "~~~");
        match (fence, marker) {
            (None, Some(marker)) => fence = Some(marker),
            (Some(open), Some(marker)) if open == marker => fence = None,
            (None, None) => return true,
            _ => {}
        }
        false
    })
}

/// Anchors of `page`: those of its headings, as GitHub and mdBook derive them, and explicit ones.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut headings: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in outside_fences(page) {
        for tag in line.split('<').skip(1).filter_map(|behind| behind.split('>').next()) {
            let values = [" id=\"", " name=\""].into_iter().filter_map(|key| tag.split_once(key));
            found.extend(values.filter_map(|(_, value)| value.split('"').next()).map(str::to_owned));
        }
        let Some(title) = heading(line) else { continue };
        if let Some((_, id)) = title.trim_end().strip_suffix('}').and_then(|title| title.rsplit_once("{#")) {
            found.extend(id.split_whitespace().next().map(str::to_owned));
            continue;
        }
        let anchor = derived_anchor(title);
        let before = headings.entry(anchor.clone()).or_default();
        found.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    found
}

/// The title of a line `## title`.
fn heading(line: &str) -> Option<&str> {
    let behind = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - behind.len())).then(|| behind.strip_prefix(' ')).flatten()
}

/// Returns the anchor of a heading: lower case, without punctuation, with a hyphen for each space.
fn derived_anchor(title: &str) -> String {
    let mut parts = title.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    // Targets of links are no part of it.
    parts.filter_map(|part| part.split_once(')')).for_each(|(_, behind)| text += behind);
    let kept = text.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Targets of `](target)` and `](<target> "title")`, but for those between backquotes. If `in_code`, the line begins
/// between them.
fn inline(line: &str, in_code: bool) -> Vec<&str> {
    let mut found = Vec::new();
    // Every second part stands between backquotes; a link around code has its `](` in the part behind it.
    for part in line.split('`').skip(usize::from(in_code)).step_by(2) {
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
    use super::super::tests::refused;
    use super::*;

    #[test]
    fn only_links_that_lead_nowhere_are_named() {
        let page = "\
[good](there.md) and [its part](there.md#a-part), [up](../README.md \"title\"), [folder](../docs), [part](#here)
[spaces](<a page.md>), [web](https://example.org/x.md), `[code](nowhere.md)`, [`code`](there.md), ![picture](<missing.png>)
[`gone`](gone.md#part)
```
[in a fence](nowhere.md)
```
[defined]: missing-definition.md
`code over
lines` [`gone` behind it](gone-too.md) `and

# Here
";
        let files = [
            ("docs/page.md", page),
            ("docs/there.md", "## A part"),
            ("docs/a page.md", ""),
            ("README.md", "[x](docs/page.md)"),
        ];
        assert_eq!(
            refused(check, &files),
            [
                "docs/page.md:2: there is no missing.png",
                "docs/page.md:3: there is no gone.md#part",
                "docs/page.md:7: there is no missing-definition.md",
                "docs/page.md:9: there is no gone-too.md"
            ]
        );
    }

    #[test]
    fn anchors_without_a_heading_are_named() {
        let there = "\
# `plan.toml`, and a [link](https://example.org/#y) (of two): 50 %
## Again
## Again
### With an id {#own .wide}
<a id=\"tagged\"></a> <a name=\"named\"></a>
```
# in a fence
```
#no-heading
####### Seven
";
        let live = ["plantoml-and-a-link-of-two-50-", "again", "again-1", "own", "tagged", "named"];
        let dead = ["again-2", "with-an-id", "in-a-fence", "no-heading", "seven", "Again"];
        let lines = live.iter().chain(&dead).map(|anchor| format!("[x](../there.md#{anchor})\n"));
        let page: String = lines.chain(["[x](#here) [x](../code.rs#L7)\n".to_owned()]).collect();
        let files = [("docs/page.md", &*page), ("there.md", there), ("code.rs", "")];
        let mut expected: Vec<String> = (live.len() + 1..)
            .zip(dead)
            .map(|(line, anchor)| format!("docs/page.md:{line}: no heading has the anchor of ../there.md#{anchor}"))
            .collect();
        expected.push("docs/page.md:13: no heading has the anchor of #here".to_owned());
        assert_eq!(refused(check, &files), expected);
    }
}
