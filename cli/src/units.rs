//! Numbers as people read them: grouped digits, binary sizes, times.

use std::time::Duration;

/// 1234567 as "1,234,567".
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 1536 as "1.5 KiB".
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = approximate(bytes) / 1024.0;
    let mut unit = UNITS[0];
    for next in UNITS.iter().skip(1) {
        // 1023.95 would be printed as "1024.0".
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// A time with three digits that matter: "12.3 ms", "1.23 s", "2 min 5 s".
pub(crate) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 0.9995 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 120.0 {
        format!("{seconds:.2} s")
    } else {
        let whole = duration.as_secs();
        format!("{} min {} s", whole / 60, whole % 60)
    }
}

/// `part / whole` as "0.83", or a dash where there is nothing to compare with.
pub(crate) fn ratio(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.2}", part / whole) } else { "-".into() }
}

/// A count as a float: exact up to 2^53, and near enough for a ratio above.
#[expect(clippy::cast_precision_loss, reason = "only for ratios and sizes that are shown with two digits")]
pub(crate) fn approximate(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        let grouped_all: Vec<String> = [0, 999, 1000, 123_456, 1_234_567].into_iter().map(grouped).collect();
        assert_eq!(grouped_all, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }

    #[test]
    fn sizes_change_unit_before_they_show_1024() {
        let sizes: Vec<String> = [0, 1023, 1024, 1536, 1_048_575, 1_048_576, u64::MAX].into_iter().map(size).collect();
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "16384.0 PiB"]);
    }

    #[test]
    fn times_keep_three_digits() {
        let times: Vec<String> = [0.0000004, 0.0123, 0.9996, 61.5, 125.0].into_iter().map(|s| time(Duration::from_secs_f64(s))).collect();
        assert_eq!(times, ["0.0 ms", "12.3 ms", "1.00 s", "61.50 s", "2 min 5 s"]);
    }
}
