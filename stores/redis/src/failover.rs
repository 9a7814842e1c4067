//! Published formulas of failover: of Sentinels, and of a cluster that watches itself.

use plimsoll_core::FailoverTime;

/// Interval of a Sentinel's questions, in milliseconds: PING to servers, the state of the master to other Sentinels,
/// and INFO to the replica that becomes the master. `SENTINEL_PING_PERIOD` and `SENTINEL_ASK_PERIOD` in
/// <https://github.com/redis/redis/blob/7.0.15/src/sentinel.c>.
const ASK_MS: u32 = 1_000;
/// Bounds of the delay of a replica of a cluster before it asks for votes, in milliseconds.
const DELAY_MS: (u32, u32) = (500, 1_000);

/// Returns the time until Sentinels have made a replica the master, if their first vote succeeds.
///
/// A master is down for a Sentinel if it gave no valid reply for `down-after-milliseconds`. At the loss, the last reply
/// was up to one interval ago; a paused or unreachable server is counted from the next PING on:
/// <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/>.
pub(crate) fn of_sentinels(down_after_ms: u32) -> FailoverTime {
    let (down_after_s, ask_s) = (f64::from(down_after_ms) / 1e3, f64::from(ASK_MS) / 1e3);
    let ping_ms = ASK_MS.min(down_after_ms);
    let formula = format!(
        "down-after-milliseconds ({down_after_s} s) without a reply to a PING, of which one is sent every {ask_s} s, \
         then up to {ask_s} s until Sentinels agree and up to {ask_s} s until they notice the new master"
    );
    let most_ms = down_after_ms + 2 * ASK_MS;
    let source = "https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/";
    FailoverTime::new(formula, source, (down_after_ms - ping_ms, most_ms), (down_after_ms, most_ms + ping_ms))
}

/// Returns the time until a replica of a cluster has the slots of its master, with this `cluster-node-timeout` in
/// milliseconds; `None` if it is no number.
///
/// Nodes ping each other at least every half of the time-out. A master that did not reply for the time-out is
/// suspected, and down if most masters report it within another half. Its replica asks for votes 0.5 to 1 s later:
/// <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.
pub(crate) fn of_cluster(node_timeout_ms: &str) -> Option<FailoverTime> {
    let timeout_ms: u32 = node_timeout_ms.parse().ok()?;
    let [timeout_s, least_s, most_s] = [timeout_ms, DELAY_MS.0, DELAY_MS.1].map(|ms| f64::from(ms) / 1e3);
    let formula = format!(
        "one to two times cluster-node-timeout ({timeout_s} s), then a delay of {least_s} s to {most_s} s before the \
         replica asks for votes"
    );
    let range_ms = (timeout_ms.saturating_add(DELAY_MS.0), timeout_ms.saturating_mul(2).saturating_add(DELAY_MS.1));
    let source = "https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/";
    Some(FailoverTime { is_of_part: true, ..FailoverTime::new(formula, source, range_ms, range_ms) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_count_from_the_last_reply_or_from_the_first_ping_without_one() {
        let time = of_sentinels(2_000);
        assert_eq!((time.killed_s, time.silent_s, time.is_of_part), ((1.0, 4.0), (2.0, 5.0), false));
        assert!(time.formula.starts_with("down-after-milliseconds (2 s)"), "{}", time.formula);
        let time = of_sentinels(30_000);
        assert_eq!((time.killed_s, time.silent_s), ((29.0, 32.0), (30.0, 33.0)));
        // They ping more often if they are to notice sooner.
        assert_eq!((of_sentinels(500).killed_s, of_sentinels(500).silent_s), ((0.0, 2.5), (0.5, 3.0)));
    }

    #[test]
    fn a_cluster_waits_for_its_node_timeout_and_a_part_of_the_data_is_away_meanwhile() {
        let bounds = |timeout: &str| of_cluster(timeout).map(|time| (time.killed_s, time.silent_s, time.is_of_part));
        assert_eq!(bounds("15000"), Some(((15.5, 31.0), (15.5, 31.0), true)));
        assert_eq!(bounds("2000"), Some(((2.5, 5.0), (2.5, 5.0), true)));
        assert_eq!(bounds("soon"), None);
    }
}
