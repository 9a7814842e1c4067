//! Requests: paths of an HTTP server, asked for in shares; or the user's own requests.
//!
//! Paths come in rounds of as many requests as the shares' sum, each path as often as its share says and in an order
//! that the seed draws for each client and round.

mod requests;
#[cfg(test)]
mod tests;

use plimsoll_core::{
    Call, HttpCall, Interface, KindId, Layout, OpKind, ParamSpec, Params, Script, Stream, StreamSpec, Value, ValueBuf,
    ValueType, Workload, WorkloadError, WorkloadSpec,
};

use crate::scramble::{Permutation, hash};
use crate::script::language::Language;
use crate::script::{Scripts, Source, columns, defines};
use crate::shares::shares;

/// Most paths, and most requests in a round.
const PATHS_MAX: usize = 1_000;
const ROUND_MAX: u64 = 1 << 20;

const PARAMS: &[ParamSpec] = &[
    ParamSpec::text(
        "paths",
        "",
        "what is asked for: paths with their shares, as in \"/=9,/bytes/65536=1\"; without any, what the URL names",
    ),
    ParamSpec::flag("cookies", "clients keep the cookies that they are given, and send them"),
    ParamSpec::text("define", "", "variables of requests: \"name=value, name=value\""),
];
const KINDS: [&str; 1] = ["get"];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "http",
        summary: "requests: paths of an HTTP server, asked for in shares",
        interfaces: &[Interface::Http],
        dialects: &[],
        kinds: &KINDS,
        params: PARAMS,
        presets: &[],
        make: |seed, params, requests| match requests {
            [] => Ok(Box::new(Paths::new(seed, params)?)),
            requests => Ok(Box::new(own(seed, params, requests)?)),
        },
    }
}

/// The user's own requests.
fn own(seed: u64, params: &Params, scripts: &[Script]) -> Result<Scripts, WorkloadError> {
    if !params.text("paths").is_empty() {
        let help = "leave `paths` out, or write each of them as a request";
        return Err(WorkloadError::new("there are both `paths` and requests", help));
    }
    let defines = defines(params.text("define"))?;
    let (columns, language) = (columns(seed, scripts)?, Language::Sql);
    let source = Source { seed, scale: 1, defines, columns, tries_max: 1, language, finds_rows: false, scripts };
    let compiled = requests::compiled(&source, params.bool("cookies"))?;
    Ok(Scripts { name: "http", layout: Layout::default(), compiled })
}

struct Paths {
    seed: u64,
    paths: Vec<(String, u32)>,
    kinds: Vec<OpKind>,
}

impl Paths {
    fn new(seed: u64, params: &Params) -> Result<Self, WorkloadError> {
        let paths = parsed(params.text("paths"))?;
        // A single path stands in the request as it was written, query and all.
        let (target, types) = match &paths[..] {
            [] => ("", Vec::new()),
            [(only, _)] => (only.as_str(), Vec::new()),
            _ => ("{}", vec![ValueType::Text]),
        };
        let call = HttpCall { cookies: params.bool("cookies"), ..HttpCall::get(target) };
        let kind = OpKind::new(KINDS[0], Call::Http(call), &types);
        Ok(Self { seed, paths, kinds: vec![kind] })
    }
}

/// Reads `/=9,/bytes/65536=1`, with commas or spaces; a path without a share has 1.
fn parsed(text: &str) -> Result<Vec<(String, u32)>, WorkloadError> {
    let form = "write paths with their shares: \"/=9,/bytes/65536=1\"";
    // A query may have an equals sign, and then the path stands alone.
    let is_one = !text.trim().contains([',', ' ']);
    let mut paths = Vec::new();
    for word in text.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()) {
        let (path, share) = match word.rsplit_once('=') {
            Some((path, share)) if !(is_one && path.contains('?')) => {
                let share = share
                    .parse()
                    .map_err(|_| WorkloadError::new(format!("the share of `{path}` is no number"), form))?;
                (path, share)
            }
            _ => (word, 1),
        };
        if !path.starts_with('/') || path.contains("{}") || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            let help = "a path begins with `/` and is in ASCII without spaces: percent-encode all others";
            return Err(WorkloadError::new(format!("`{path}` is no path"), help));
        }
        paths.push((path.to_owned(), share));
    }
    let sum: u64 = paths.iter().map(|(_, share)| u64::from(*share)).sum();
    if text.trim().is_empty() {
        return Ok(paths);
    }
    if sum == 0 || sum > ROUND_MAX || paths.len() > PATHS_MAX {
        let what = format!("{} paths with shares of {sum} together", paths.len());
        return Err(WorkloadError::new(what, "give 1 to 1,000 paths, with shares of 1 to 1,048,576 together"));
    }
    if paths.len() > 1
        && let Some((path, _)) = paths.iter().find(|(path, _)| path.contains(['?', '%', '#']))
    {
        let help = "of several paths none has a query or a percent sign: write them as [[workload.request]]";
        return Err(WorkloadError::new(format!("`{path}` is one of several paths"), help));
    }
    Ok(paths)
}

impl Workload for Paths {
    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        shares("http", &KINDS, spec)?;
        let shares = self.paths.iter().enumerate();
        let round = shares.flat_map(|(at, (_, share))| std::iter::repeat_n(at as u32, *share as usize)).collect();
        let paths = self.paths.iter().map(|(path, _)| path.clone()).collect();
        Ok(Box::new(PathStream { seed: self.seed, paths, round }))
    }
}

struct PathStream {
    seed: u64,
    paths: Vec<String>,
    /// A path's position as often as its share says.
    round: Vec<u32>,
}

impl Stream for PathStream {
    #[inline]
    fn op(&self, client: u32, cycle: u64, params: &mut ValueBuf) -> Option<KindId> {
        if self.paths.len() > 1 {
            let count = self.round.len() as u64;
            let order = Permutation::new(hash(self.seed, u64::from(client), cycle / count), count);
            let at = self.round[order.apply(cycle % count) as usize];
            params.push(Value::Text(&self.paths[at as usize]));
        }
        Some(0)
    }
}
