//! Signals by name, and `--signal=[R][B]:SIG[@seconds]`.

use gpun_core::spec::WarnSignal;

/// Names and numbers on Linux.
const NAMES: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// The highest signal number.
pub const MAX: i32 = 64;

/// How long before the end of the limit a job is warned, when it does not say, in seconds.
pub const DEFAULT_BEFORE_S: u32 = 60;

/// Reads a signal: a number from 1 to [`MAX`], or a name with or without `SIG`, in any case.
pub fn parse(text: &str) -> Option<i32> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().filter(|n| (1..=MAX).contains(n));
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().find(|(n, _)| *n == name).map(|(_, number)| *number)
}

/// The name without `SIG`, or the number as text.
pub fn name(number: i32) -> String {
    NAMES.iter().find(|(_, n)| *n == number).map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

/// What the C library calls the signal, as in `RaisedSignal:9(Killed)`.
pub fn description(number: i32) -> String {
    let text = match number {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        5 => "Trace/breakpoint trap",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        9 => "Killed",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        16 => "Stack fault",
        17 => "Child exited",
        18 => "Continued",
        19 => "Stopped (signal)",
        20 => "Stopped",
        21 => "Stopped (tty input)",
        22 => "Stopped (tty output)",
        23 => "Urgent I/O condition",
        24 => "CPU time limit exceeded",
        25 => "File size limit exceeded",
        26 => "Virtual timer expired",
        27 => "Profiling timer expired",
        28 => "Window changed",
        29 => "I/O possible",
        30 => "Power failure",
        31 => "Bad system call",
        34..=64 => return format!("Real-time signal {}", number - 34),
        n => return format!("Unknown signal {n}"),
    };
    text.to_owned()
}

/// Reads `--signal`. The `R` (also at the start of an overlapping reservation) has no meaning without reservations and
/// is accepted.
pub fn parse_warning(text: &str) -> Option<WarnSignal> {
    let (flags, rest) = text.split_once(':').unwrap_or(("", text));
    if !flags.bytes().all(|b| matches!(b.to_ascii_uppercase(), b'B' | b'R')) {
        return None;
    }
    let (signal, before) = match rest.split_once('@') {
        None => (rest, DEFAULT_BEFORE_S),
        Some((s, "")) => (s, 0),
        Some((s, t)) => (s, t.parse::<u16>().ok().filter(|_| t.bytes().all(|b| b.is_ascii_digit()))?.into()),
    };
    let batch_only = flags.bytes().any(|b| b.eq_ignore_ascii_case(&b'B'));
    Some(WarnSignal { signal: parse(signal)?, before_s: before, batch_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for (text, want) in [
            ("USR1", Some(10)),
            ("SIGUSR1", Some(10)),
            ("sigusr1", Some(10)),
            ("usr2", Some(12)),
            ("9", Some(9)),
            ("64", Some(64)),
            ("65", None),
            ("0", None),
            ("FOO", None),
            ("", None),
            ("SIG", None),
            ("-1", None),
        ] {
            assert_eq!(parse(text), want, "{text}");
        }
        assert_eq!((name(9), name(40)), ("KILL".to_owned(), "40".to_owned()));
        assert_eq!(description(9), "Killed");
    }

    #[test]
    fn warnings() {
        for (text, want) in [
            ("USR1", Some((10, 60, false))),
            ("USR1@60", Some((10, 60, false))),
            ("B:USR1@90", Some((10, 90, true))),
            ("R:USR1", Some((10, 60, false))),
            ("RB:10@5", Some((10, 5, true))),
            ("BR:TERM@300", Some((15, 300, true))),
            ("B:USR2@30", Some((12, 30, true))),
            ("USR1@65535", Some((10, 65_535, false))),
            ("USR1@65536", None),
            ("USR1@-1", None),
            ("USR1@x", None),
            ("@60", None),
            ("X:USR1", None),
            ("B:", None),
            ("", None),
            ("0", None),
        ] {
            let got = parse_warning(text).map(|w| (w.signal, w.before_s, w.batch_only));
            assert_eq!(got, want, "{text}");
        }
    }
}
