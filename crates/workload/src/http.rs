//! Requests: paths of an HTTP server, asked for in shares.
//!
//! Paths come in rounds of as many requests as the shares' sum, each path as often as its share says and in an order
//! that the seed draws for each client and round.

use plimsoll_core::{
    Call, HttpCall, Interface, KindId, OpKind, ParamSpec, Params, Stream, StreamSpec, Value, ValueBuf, ValueType,
    Workload, WorkloadError, WorkloadSpec,
};

use crate::scramble::{Permutation, hash};
use crate::shares::shares;

/// Most paths, and most requests in a round.
const PATHS_MAX: usize = 1_000;
const ROUND_MAX: u64 = 1 << 20;

const PARAMS: &[ParamSpec] =
    &[ParamSpec::text("paths", "/", "what is asked for: paths with their shares, as in \"/=9,/bytes/65536=1\"")];
const KINDS: [&str; 1] = ["get"];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "http",
        summary: "requests: paths of an HTTP server, asked for in shares",
        interfaces: &[Interface::Http],
        dialects: &[],
        takes_scripts: false,
        kinds: &KINDS,
        params: PARAMS,
        make: |seed, params, _| Ok(Box::new(Requests::new(seed, params)?)),
    }
}

struct Requests {
    seed: u64,
    paths: Vec<(String, u32)>,
    kinds: Vec<OpKind>,
}

impl Requests {
    fn new(seed: u64, params: &Params) -> Result<Self, WorkloadError> {
        let paths = parsed(params.text("paths"))?;
        // A single path stands in the request as it was written, query and all.
        let (target, types) = match &paths[..] {
            [(only, _)] => (only.clone(), Vec::new()),
            _ => ("{}".to_owned(), vec![ValueType::Text]),
        };
        let kind = OpKind::new(KINDS[0], Call::Http(HttpCall { method: "GET".into(), target, body: false }), &types);
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
            let help = "a path begins with `/` and is in ASCII without spaces: percent-encode what is not";
            return Err(WorkloadError::new(format!("`{path}` is no path"), help));
        }
        paths.push((path.to_owned(), share));
    }
    let sum: u64 = paths.iter().map(|(_, share)| u64::from(*share)).sum();
    if sum == 0 || sum > ROUND_MAX || paths.len() > PATHS_MAX {
        let what = format!("{} paths with shares of {sum} together", paths.len());
        return Err(WorkloadError::new(what, "give 1 to 1,000 paths, with shares of 1 to 1,048,576 together"));
    }
    if paths.len() > 1
        && let Some((path, _)) = paths.iter().find(|(path, _)| path.contains(['?', '%', '#']))
    {
        let help = "of several paths none has a query or a percent sign; one path alone may";
        return Err(WorkloadError::new(format!("`{path}` is one of several paths"), help));
    }
    Ok(paths)
}

impl Workload for Requests {
    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        shares("http", &KINDS, spec)?;
        let shares = self.paths.iter().enumerate();
        let round = shares.flat_map(|(at, (_, share))| std::iter::repeat_n(at as u32, *share as usize)).collect();
        let paths = self.paths.iter().map(|(path, _)| path.clone()).collect();
        Ok(Box::new(RequestStream { seed: self.seed, paths, round }))
    }
}

struct RequestStream {
    seed: u64,
    paths: Vec<String>,
    /// A path's position as often as its share says.
    round: Vec<u32>,
}

impl Stream for RequestStream {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plimsoll_core::ParamValue;

    use super::*;

    fn made(paths: &str) -> Result<Requests, WorkloadError> {
        Requests::new(5, &Params([("paths".to_owned(), ParamValue::Text(paths.to_owned()))].into()))
    }

    fn asked(requests: &Requests, client: u32, cycles: std::ops::Range<u64>) -> Vec<String> {
        let stream = requests.stream(&StreamSpec::One { kind: "get".into(), clients: 4 }).unwrap();
        let mut params = ValueBuf::new();
        let mut ask = |cycle| {
            params.clear();
            assert_eq!(stream.op(client, cycle, &mut params), Some(0));
            let Value::Text(path) = params.values().get(0) else { panic!("a path is a text") };
            path.to_owned()
        };
        cycles.map(&mut ask).collect()
    }

    #[test]
    fn every_round_has_each_path_as_often_as_its_share() {
        let requests = made("/=9, /bytes/65536=3 /once").unwrap();
        for round in 0..20 {
            let mut counts = BTreeMap::new();
            for path in asked(&requests, 1, round * 13..(round + 1) * 13) {
                *counts.entry(path).or_insert(0) += 1;
            }
            let counts: Vec<_> = counts.iter().map(|(path, count)| (path.as_str(), *count)).collect();
            assert_eq!(counts, [("/", 9), ("/bytes/65536", 3), ("/once", 1)]);
        }
        assert_eq!(asked(&requests, 2, 0..100), asked(&requests, 2, 0..100));
        assert_ne!(asked(&requests, 2, 0..100), asked(&requests, 3, 0..100));
        assert_ne!(asked(&requests, 2, 0..13), asked(&requests, 2, 13..26));
    }

    #[test]
    fn a_path_alone_stands_in_the_request() {
        for (paths, target) in [("/", "/"), ("/a=4", "/a"), ("/find?q=%20&n=7", "/find?q=%20&n=7")] {
            let requests = made(paths).unwrap();
            let Call::Http(call) = &requests.kinds()[0].call else { panic!("it is a request") };
            assert_eq!((call.target.as_str(), requests.kinds()[0].params.len()), (target, 0));
        }
    }

    #[test]
    fn what_is_no_list_of_paths_is_refused() {
        for paths in ["", "x", "/a=b", "/a=0", "/a b", "/{}", "/a,/b?q=1", "/a%20=1,/b", "/a=9999999,/b"] {
            let error = made(paths).err().unwrap_or_else(|| panic!("{paths} was taken"));
            assert!(error.help.is_some(), "{paths}");
        }
    }
}
