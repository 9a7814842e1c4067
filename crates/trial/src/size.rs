//! Size of the data in relation to the memory that can hold them: the store's own cache, and the memory of its
//! machine.

use plimsoll_core::CacheSize;
use plimsoll_plan::model::{PhaseStep, Start};
use plimsoll_record::data::{About, PhaseEnd, PhaseResult, ResultName};

use crate::error::TrialError;
use crate::phase::TrialRun;

impl TrialRun<'_, '_> {
    /// Measures the size before the first phase that works with the data, after all phases that made and maintained
    /// them.
    ///
    /// # Errors
    /// When the server is not reachable any more. A size that is unknown for another reason is a remark.
    pub(crate) fn size_first(&mut self, step: &PhaseStep, end: &mut PhaseEnd) -> Result<(), TrialError> {
        if self.found.data
            || matches!(step, PhaseStep::Load { .. } | PhaseStep::Settle)
            || std::mem::replace(&mut self.is_sized, true)
        {
            return Ok(());
        }
        // To look at an embedded store's tables writes to them what stands in memory only: of one that is to be taken
        // as its load left it, that would make another.
        if self.store.spec().schemes.is_empty() && self.found.start != Start::Settled {
            end.remarks.push((About::DataSize, "not read, because reading it would settle the store".to_owned()));
        } else {
            match self.store.footprint() {
                Ok(footprint) => end.footprint = Some(footprint),
                Err(error) if error.is_nobody_there() => return Err(error),
                Err(error) => end.remarks.push((About::DataSize, format!("not known: {error}"))),
            }
        }
        self.memories(end)
    }

    /// Measures the size after the store's own maintenance.
    pub(crate) fn size_settled(&mut self, end: &mut PhaseEnd) -> Result<(), TrialError> {
        end.footprint = Some(self.store.footprint()?);
        self.is_sized = true;
        self.memories(end)
    }

    /// Records the memories that could hold the data.
    fn memories(&mut self, end: &mut PhaseEnd) -> Result<(), TrialError> {
        let mut of = |name, setting: &str, bytes: u64| {
            end.results.push(PhaseResult { name, subject: setting.to_owned(), value: bytes as f64, n: 1 });
        };
        match self.store.cache_bytes() {
            Ok(Some(CacheSize::Own { setting, bytes })) => of(ResultName::CacheBytes, setting, bytes),
            // The kernel's takes what memory there is.
            Ok(Some(CacheSize::PageCache)) => of(ResultName::CacheBytes, "", 0),
            Ok(Some(CacheSize::InMemory { setting, limit_bytes })) => {
                of(ResultName::MemoryLimitBytes, setting, limit_bytes.unwrap_or(0));
            }
            Ok(None) => {}
            Err(error) if error.is_nobody_there() => return Err(error),
            Err(error) => end.remarks.push((About::CacheSize, format!("not known: {error}"))),
        }
        let memory_bytes = match self.place.split_once("://") {
            // Ours: what this program may have, its children have.
            None => plimsoll_sample::environment::own_memory_bytes(),
            Some((_, rest)) if is_here(rest) => plimsoll_sample::environment::memory().total,
            Some(_) => None,
        };
        if let Some(bytes) = memory_bytes {
            end.push(ResultName::MemoryBytes, bytes as f64);
        }
        Ok(())
    }
}

/// Returns true if a URL, without its scheme and credentials, leads to this machine.
fn is_here(rest: &str) -> bool {
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let address: Option<std::net::IpAddr> = host.parse().ok();
    // A path, plain or escaped: a Unix socket. So is the host that is named behind the `?` only.
    host.is_empty() && !authority.starts_with(':')
        || host.starts_with("%2F")
        || host == "localhost"
        || address.is_some_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_here;

    #[test]
    fn sockets_and_the_loopback_interface_are_here() {
        for (url, here) in [
            ("postgres:///app?host=/run/postgresql", true),
            ("postgres://localhost:5432/app", true),
            ("redis+unix:///run/redis.sock?db=0", true),
            ("ldapi://%2Frun%2Fldapi/dc=x", true),
            ("mariadb://127.0.0.1:3306/app", true),
            ("redis://[::1]:6379/0", true),
            ("postgres://db.example.org:5432/app", false),
            ("redis://[2001:db8::1]:6379/0", false),
            ("mariadb://192.0.2.7/app", false),
        ] {
            assert_eq!(is_here(url.split_once("://").unwrap().1), here, "{url}");
        }
    }
}
