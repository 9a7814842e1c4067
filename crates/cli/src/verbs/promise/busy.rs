//! A load for settings that protect data pages: a cut tries such a setting only while pages are on their way to the disk.

use plimsoll_core::{Catalogue, PageGuard};

use crate::args::PromiseArgs;

/// Number of records by default.
const RECORDS: &str = "1000";

/// Adds to `of_stores` what makes data pages leave memory all the time, for each of `stores` of which a setting that
/// protects these is given. Values that are given stay. Returns the default number of records.
pub fn keep_pages_moving(
    catalogue: &Catalogue,
    args: &PromiseArgs,
    stores: &[String],
    of_stores: &mut Vec<(String, String)>,
) -> &'static str {
    let mut records = RECORDS;
    for store in stores {
        let spec = |name: &str| catalogue.store_of(name).map(|kind| kind.spec());
        let Some((spec_of, guard)) = spec(store).and_then(|of| Some((of, of.page_guard?))) else { continue };
        let is_its = |key: &str| {
            let of = key.split_once('.').filter(|(name, _)| spec(name).is_some_and(|of| of.name == spec_of.name));
            of.map(|(_, param)| param.to_owned())
        };
        let Some(added) = add(&guard, store, is_its, of_stores) else { continue };
        if !guard.records.is_empty() {
            records = guard.records;
        }
        if !added.is_empty() && !args.telling.output.quiet && !args.print_plan {
            let added = added.join(", ");
            crate::say(&format!("{store}: {added} is set, so that data pages are on their way at the power cuts"));
        }
    }
    records
}

/// Adds the busy parameters of a store to the given ones, and returns them; `None` if no protecting setting is given.
fn add(
    guard: &PageGuard,
    store: &str,
    is_its: impl Fn(&str) -> Option<String>,
    of_stores: &mut Vec<(String, String)>,
) -> Option<Vec<String>> {
    let is_param = |key: &str, param: &str| is_its(key).is_some_and(|its| its == param);
    let given = of_stores.iter().position(|(key, _)| is_param(key, guard.param))?;
    of_stores.get(given).filter(|(_, value)| !(guard.named)(value).is_empty())?;
    let mut added = Vec::new();
    for (param, value) in guard.busy {
        if *param != guard.param {
            if !of_stores.iter().any(|(key, _)| is_param(key, param)) {
                of_stores.push((format!("{store}.{param}"), (*value).to_owned()));
                added.push(format!("{param}={value}"));
            }
            continue;
        }
        let (_, settings) = of_stores.get_mut(given)?;
        for word in value.split(' ') {
            if !word.split('=').next().is_some_and(|name| settings.contains(name)) {
                settings.push(' ');
                settings.push_str(word);
                added.push(word.to_owned());
            }
        }
    }
    Some(added)
}
