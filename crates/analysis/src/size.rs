//! Size of the data in relation to the memory that can hold them: the store's own cache, and the memory of its
//! machine.
//!
//! A store whose data fit its cache answers from memory; one whose data do not waits for the device. Figures of the two
//! are of different things, so this stands with every result.

use plimsoll_core::Footprint;
use plimsoll_record::data::{PhaseKind, PhaseResult, ResultName, Trial};

use crate::number;
use crate::view::SizeView;

/// True for results that [`SizeView`] holds.
pub fn is_of_size(result: ResultName) -> bool {
    matches!(result, ResultName::MemoryBytes | ResultName::CacheBytes | ResultName::MemoryLimitBytes)
}

/// Returns the size by the trial's phases; `None` if they do not record it.
pub fn size(trial: &Trial, footprint: Option<Footprint>) -> Option<SizeView> {
    let first = |name| trial.phases.iter().find_map(move |phase| phase.end.result(name));
    let memory = first(ResultName::MemoryBytes).map(|one| one.value);
    // A store that cannot tell says 0.
    let data = footprint.map(|all| all.data_bytes + all.index_bytes.unwrap_or(0)).filter(|bytes| *bytes > 0);
    let cache = first(ResultName::CacheBytes).or_else(|| first(ResultName::MemoryLimitBytes));
    if cache.is_none() && (memory.is_none() || data.is_none()) {
        return None;
    }
    // The store has none of its own, and reads through the kernel's.
    let own = cache.filter(|one| !one.subject.is_empty() || one.name == ResultName::MemoryLimitBytes);
    // Of a limit 0 says that there is none.
    let is_bounded = |one: &&PhaseResult| one.name == ResultName::CacheBytes || one.value > 0.0;
    let cache_bytes = own.filter(is_bounded).map(|one| one.value as u64);
    let is_attached = trial.header.place.contains("://");
    let parts = [
        data_words(trial, data),
        cache.map_or(String::new(), |cache| cache_words(cache, data)),
        match memory {
            Some(bytes) => format!("memory {}{}", number::bytes(bytes), share(data, bytes)),
            None if is_attached => "memory of its host unknown".to_string(),
            None => "memory of this machine unknown".to_string(),
        },
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Some(SizeView {
        sentence: parts.join("; "),
        data_bytes: data,
        cache_setting: own.map(|one| one.subject.clone()),
        cache_bytes,
        memory_bytes: memory.map(|bytes| bytes as u64),
        fits_cache: data.zip(cache_bytes).map(|(data, cache)| data <= cache),
        fits_memory: data.zip(memory).map(|(data, memory)| data as f64 <= memory),
    })
}

/// `data 1.20 GiB (scale 10: 1,000,000 records)`.
fn data_words(trial: &Trial, data: Option<u64>) -> String {
    let mut out = match data {
        Some(bytes) => format!("data {}", number::bytes(bytes as f64)),
        None => "data of unknown size".to_string(),
    };
    let count = trial.header.record_count;
    // Records that another program has loaded were not counted here.
    let is_theirs = !trial.phases.iter().any(|phase| phase.header.kind == PhaseKind::Load);
    let taken = if is_theirs { " assumed" } else { "" };
    let records = (count > 0).then(|| format!("{}{taken}", number::plural(count, "record", "records")));
    let scale = trial.header.params.get("scale").map(|scale| format!("scale {scale}"));
    let about: Vec<String> = scale.into_iter().chain(records).collect();
    if !about.is_empty() {
        out.push_str(&format!(" ({})", about.join(": ")));
    }
    out
}

/// Describes the place in which the store keeps data that it has read, by its setting for the cache or for its memory.
fn cache_words(said: &PhaseResult, data: Option<u64>) -> String {
    let (setting, bytes) = (said.subject.as_str(), number::bytes(said.value));
    match said.name {
        ResultName::CacheBytes if setting.is_empty() => "no cache but the kernel's page cache".to_string(),
        ResultName::CacheBytes => format!("cache {bytes} ({setting}){}", share(data, said.value)),
        _ if said.value > 0.0 => format!("all data in memory, limited to {bytes} ({setting})"),
        _ => format!("all data in memory (no {setting})"),
    }
}

/// Describes the share of the data that `bytes` of memory can hold.
fn share(data: Option<u64>, bytes: f64) -> String {
    let Some(data) = data else { return String::new() };
    let share = bytes / data as f64;
    if share >= 1.0 {
        return ": all of it fits".to_string();
    }
    // What is less than all is not rounded to it.
    match (share * 100.0).floor() {
        0.0 => ": less than 1 % of it fits".to_string(),
        percent => format!(": {percent:.0} % of it fits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_fits_and_how_much_of_it() {
        let (mib, gib) = ((1u64 << 20) as f64, 1u64 << 30);
        let said = |name, subject: &str, value| PhaseResult { name, subject: subject.to_string(), value, n: 1 };
        let own = |bytes, data| cache_words(&said(ResultName::CacheBytes, "shared_buffers", bytes), data);
        let limit = |bytes| cache_words(&said(ResultName::MemoryLimitBytes, "maxmemory", bytes), None);
        assert_eq!(own(128.0 * mib, Some(gib)), "cache 128 MiB (shared_buffers): 12 % of it fits");
        assert_eq!(own(1024.0 * mib, Some(gib)), "cache 1.00 GiB (shared_buffers): all of it fits");
        assert_eq!(own(1023.9 * mib, Some(gib)), "cache 1.00 GiB (shared_buffers): 99 % of it fits");
        assert_eq!(own(2.0 * mib, Some(gib)), "cache 2.00 MiB (shared_buffers): less than 1 % of it fits");
        assert_eq!(own(2.0 * mib, None), "cache 2.00 MiB (shared_buffers)");
        let none = said(ResultName::CacheBytes, "", 0.0);
        assert_eq!(cache_words(&none, Some(gib)), "no cache but the kernel's page cache");
        assert_eq!(limit(0.0), "all data in memory (no maxmemory)");
        assert_eq!(limit(64.0 * mib), "all data in memory, limited to 64.0 MiB (maxmemory)");
    }
}
