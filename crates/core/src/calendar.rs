//! Moments as dates of the Gregorian calendar and times of day, and back: Howard Hinnant's `civil_from_days` and
//! `days_from_civil` ("chrono-compatible low-level date algorithms"). Eras of 400 years begin on 1 March, so that
//! the leap day is the last of its year.

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;
/// Days from 0000-03-01, where an era begins, to 1970-01-01.
const BEFORE_1970: i64 = 719_468;
const DAYS_OF_ERA: i64 = 146_097;

/// A moment, split into its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 59.
    pub second: i64,
    /// Microseconds of the second.
    pub us: i64,
}

impl Utc {
    /// Converts from microseconds since 1970.
    pub fn of_us(us: i64) -> Self {
        let (year, month, day) = date(us.div_euclid(DAY_US));
        let of_day_us = us.rem_euclid(DAY_US);
        let second = of_day_us / 1_000_000;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        Self { year, month, day, hour, minute, second, us: of_day_us % 1_000_000 }
    }

    /// Microseconds since 1970; `None` on overflow.
    pub fn since_1970_us(&self) -> Option<i64> {
        let of_day_s = self.hour * 3_600 + self.minute * 60 + self.second;
        days(self.year, self.month, self.day).checked_mul(DAY_US)?.checked_add(of_day_s * 1_000_000 + self.us)
    }
}

/// Year, month (1 to 12) and day (1 to 31) of a day. Year 0 is 1 BC.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + BEFORE_1970;
    let (era, day_of_era) = (shifted.div_euclid(DAYS_OF_ERA), shifted.rem_euclid(DAYS_OF_ERA));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day of a date: the inverse of [`date`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_OF_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - BEFORE_1970
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_a_date_and_is_found_by_it() {
        let mut before = date(-1_000_000);
        for day in -999_999..1_000_000 {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month, of_month), day);
            assert!(before < (year, month, of_month) && (1..=12).contains(&month) && (1..=31).contains(&of_month));
            before = (year, month, of_month);
        }
        assert_eq!((date(0), date(11_016), date(-719_528)), ((1970, 1, 1), (2000, 2, 29), (0, 1, 1)));
    }

    #[test]
    fn a_moment_comes_back_as_it_was() {
        for us in [0, -1, 951_782_400_000_001, -62_135_596_800_000_001, 1_700_000_000_123_456, 4_102_444_800_000_000] {
            assert_eq!(Utc::of_us(us).since_1970_us(), Some(us));
        }
        let leap_day = Utc { year: 2000, month: 2, day: 29, hour: 1, minute: 2, second: 3, us: 4 };
        assert_eq!(Utc::of_us(951_786_123_000_004), leap_day);
    }
}
