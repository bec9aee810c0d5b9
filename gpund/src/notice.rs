//! Words on a job's standard error.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use crate::spec::LaunchSpec;
use crate::sys::as_user;

/// The text with `{time}` replaced by the present local time, ending in a line feed.
pub fn line(text: &str) -> String {
    line_at(text, &jiff::ZonedDateTime::now())
}

fn line_at(text: &str, now: &jiff::ZonedDateTime) -> String {
    let mut line = text.replace("{time}", &now.strftime("%Y-%m-%dT%H:%M:%S").to_string());
    if !line.ends_with('\n') {
        line.push('\n');
    }
    line
}

/// Appends a text to the job's standard error from outside its container, for when that is gone. It is opened as the
/// job's user, so that a link leads nowhere that the user could not write anyway; it is never made.
///
/// # Errors
/// It is not there, is no regular file, or the user may not write it.
pub fn append(spec: &LaunchSpec, text: &str) -> io::Result<()> {
    let who = &spec.identity;
    as_user(who.uid, who.gid, &who.groups, || {
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
        let mut file = options.open(spec.stdio.stderr.as_path())?;
        let kind = file.metadata()?.file_type();
        if !kind.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        file.write_all(line(text).as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn the_time_is_local_and_the_line_ends_once() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now = date(2026, 12, 1).at(9, 8, 7, 600_000_000).to_zoned_datetime(zone).unwrap();
        for (text, line) in [
            ("*** CANCELLED AT {time} ***", "*** CANCELLED AT 2026-12-01T09:08:07 ***\n"),
            ("plain\n", "plain\n"),
            ("{time}{time}", "2026-12-01T09:08:072026-12-01T09:08:07\n"),
        ] {
            assert_eq!(line_at(text, &now), line);
        }
    }
}
