//! References in an answer (`Location`), resolved against the target of its request: RFC 9110, 10.2.2; RFC 3986, 5.2.

use std::borrow::Cow;

/// Target of a request, to which a reference in its answer may be relative.
pub(crate) struct Base<'a> {
    pub scheme: &'static str,
    /// Path and query; `None` if the request does not keep them.
    pub target: Option<&'a [u8]>,
}

impl Base<'_> {
    /// Resolves `reference`: a URL stays as it is, anything else becomes a path with its query, or a URL of another host.
    pub(crate) fn resolve<'r>(&self, reference: &'r str) -> Cow<'r, str> {
        let Some(base) = self.target.and_then(|target| std::str::from_utf8(target).ok()) else {
            return reference.into();
        };
        if has_scheme(reference) {
            return reference.into();
        }
        if reference.starts_with("//") {
            return format!("{}:{reference}", self.scheme).into();
        }
        let path_end = reference.find(['?', '#']).unwrap_or(reference.len());
        let (path, rest) = reference.split_at(path_end);
        let (base_path, base_query) = base.split_at(base.find('?').unwrap_or(base.len()));
        let resolved = match path.as_bytes().first() {
            None if rest.starts_with('?') => format!("{base_path}{rest}"),
            None => format!("{base_path}{base_query}{rest}"),
            Some(b'/') => format!("{}{rest}", without_dots(path)),
            Some(_) => {
                let folder = base_path.rfind('/').map_or("/", |slash| &base_path[..=slash]);
                format!("{}{rest}", without_dots(&format!("{folder}{path}")))
            }
        };
        resolved.into()
    }
}

/// Returns true if `reference` begins with a scheme and its colon.
fn has_scheme(reference: &str) -> bool {
    let Some((scheme, _)) = reference.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
}

/// Removes the segments `.` and `..` of a path that begins with a slash, with what they take back.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut all = path.split('/').skip(1).peekable();
    while let Some(segment) = all.next() {
        let is_last = all.peek().is_none();
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_as_the_examples_of_rfc_3986_are() {
        let base = Base { scheme: "http", target: Some(b"/b/c/d;p?q") };
        for (reference, target) in [
            ("g:h", "g:h"),
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("//g", "http://g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q#s"),
            ("g#s", "/b/c/g#s"),
            ("g?y#s", "/b/c/g?y#s"),
            (";x", "/b/c/;x"),
            ("g;x?y#s", "/b/c/g;x?y#s"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../", "/"),
            ("../../g", "/g"),
            ("../../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./../g", "/b/g"),
            ("./g/.", "/b/c/g/"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("g#s/../x", "/b/c/g#s/../x"),
            ("https://h/a/../b", "https://h/a/../b"),
            ("/a//b", "/a//b"),
            ("7:8", "/b/c/7:8"),
        ] {
            assert_eq!(base.resolve(reference), target, "{reference}");
        }
        assert_eq!(Base { scheme: "http", target: Some(b"/") }.resolve("g"), "/g");
        assert_eq!(Base { scheme: "http", target: None }.resolve("g"), "g");
    }
}
