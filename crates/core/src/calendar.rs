//! Days since 1970-01-01 as dates of the Gregorian calendar, and back: Howard Hinnant's `civil_from_days` and
//! `days_from_civil` ("chrono-compatible low-level date algorithms"). Eras of 400 years begin on 1 March, so that
//! the leap day is the last of its year.

/// Days from 0000-03-01, where an era begins, to 1970-01-01.
const BEFORE_1970: i64 = 719_468;
const DAYS_OF_ERA: i64 = 146_097;

/// Year, month (1 to 12) and day (1 to 31) of a day. Year 0 is 1 BC.
pub fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + BEFORE_1970;
    let (era, day_of_era) = (shifted.div_euclid(DAYS_OF_ERA), shifted.rem_euclid(DAYS_OF_ERA));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day of a date: what [`date`] makes it of.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
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
}
