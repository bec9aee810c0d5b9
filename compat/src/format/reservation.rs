//! `scontrol show reservation` and `sinfo --reservation`.

use gpun_core::view::ReservationView;

use super::Shown;
use crate::{hostlist::compress, reservation::flag_names, time};

/// One reservation in a block, or in one line.
pub fn show(view: &ReservationView, one_line: bool, shown: &Shown<'_>) -> String {
    let one = &view.reservation;
    let (joint, end) = if one_line { (" ", "\n") } else { ("\n   ", "\n\n") };
    let or_null = |list: &[String]| if list.is_empty() { "(null)".to_owned() } else { list.join(",") };
    [
        format!(
            "ReservationName={} StartTime={} EndTime={} Duration={}",
            one.name,
            shown.time(one.start),
            shown.time(one.end),
            duration(view)
        ),
        format!(
            "Nodes={} NodeCnt={} CoreCnt={} Features=(null) PartitionName={} Flags={}",
            compress(one.nodes.iter().map(String::as_str)),
            one.nodes.len(),
            view.cores,
            one.partition.as_deref().unwrap_or("(null)"),
            flag_names(&one.flags)
        ),
        format!("TRES=cpu={}", view.cpus),
        format!(
            "Users={} Groups=(null) Accounts={} Licenses=(null) State={} BurstBuffer=(null)",
            or_null(&one.users),
            or_null(&one.accounts),
            state(view, shown)
        ),
        "MaxStartDelay=(null)".to_owned(),
    ]
    .join(joint)
        + end
}

/// What is said of one that is not there.
pub fn not_found(name: &str) -> String {
    format!("Reservation {name} not found\n")
}

/// The lines of `sinfo --reservation`.
pub fn table(views: &[ReservationView], no_header: bool, shown: &Shown<'_>) -> String {
    let width = views.iter().map(|view| view.reservation.name.len()).max().unwrap_or(0).max("RESV_NAME".len());
    let mut out = String::new();
    let mut line = |name: &str, rest: [&str; 5]| {
        let [state, start, end, duration, nodes] = rest;
        out.push_str(&format!("{name:<width$}  {state:>8}  {start:>19}  {end:>19}  {duration:>11}  {nodes}\n"));
    };
    if !no_header {
        line("RESV_NAME", ["STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST"]);
    }
    for view in views {
        let one = &view.reservation;
        let nodes = compress(one.nodes.iter().map(String::as_str));
        line(&one.name, [state(view, shown), &shown.time(one.start), &shown.time(one.end), &duration(view), &nodes]);
    }
    out
}

fn state(view: &ReservationView, shown: &Shown<'_>) -> &'static str {
    if view.reservation.is_active(shown.now()) { "ACTIVE" } else { "INACTIVE" }
}

fn duration(view: &ReservationView) -> String {
    let one = &view.reservation;
    time::long(one.end.0.saturating_sub(one.start.0) / 1_000)
}

#[cfg(test)]
mod tests {
    use gpun_core::{
        TimeMs,
        reservation::{Flag, Reservation},
    };
    use jiff::tz::TimeZone;

    use super::*;
    use crate::moment::Style;

    const START: TimeMs = TimeMs(1_796_128_916_000);

    fn views() -> Vec<ReservationView> {
        let one = Reservation {
            name: "alice_5".into(),
            start: START,
            end: START.plus_s(1800),
            nodes: vec!["n5".into(), "n6".into()],
            users: vec!["alice".into()],
            flags: vec![Flag::SpecNodes, Flag::Maint],
            ..Reservation::default()
        };
        let year = Reservation {
            name: "y".into(),
            end: START.plus_s(365 * 86_400),
            nodes: vec!["n3".into()],
            users: Vec::new(),
            accounts: vec!["chem".into(), "bio".into()],
            partition: Some("debug".into()),
            flags: Vec::new(),
            ..one.clone()
        };
        [(one, 16), (year, 8)].map(|(reservation, cpus)| ReservationView { reservation, cpus, cores: cpus }).to_vec()
    }

    fn with_shown(now: TimeMs, look: impl FnOnce(&Shown<'_>)) {
        look(&Shown {
            now_s: (now.0 / 1_000) as i64,
            zone: &TimeZone::UTC,
            style: Style::Standard,
            cluster: "ref",
            user_name: &|_| None,
            def_mem_per_cpu_mib: None,
            bitstr_len: None,
            noconvert: false,
        });
    }

    #[test]
    fn blocks_lines_and_the_table_are_slurms() {
        let views = views();
        with_shown(TimeMs(START.0 - 1_000), |shown| {
            assert_eq!(
                show(&views[0], false, shown),
                "ReservationName=alice_5 StartTime=2026-12-01T12:41:56 EndTime=2026-12-01T13:11:56 Duration=00:30:00\n   \
                 Nodes=n[5-6] NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES\n   \
                 TRES=cpu=16\n   \
                 Users=alice Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)\n   \
                 MaxStartDelay=(null)\n\n"
            );
            let line = show(&views[1], true, shown);
            let middle = " PartitionName=debug Flags= TRES=cpu=8 Users=(null) Groups=(null) Accounts=chem,bio ";
            assert!(line.contains(middle), "{line}");
            assert!(line.ends_with(" MaxStartDelay=(null)\n") && line.lines().count() == 1, "{line}");
            assert_eq!(
                table(&views, false, shown),
                "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST\n\
                 alice_5    INACTIVE  2026-12-01T12:41:56  2026-12-01T13:11:56     00:30:00  n[5-6]\n\
                 y          INACTIVE  2026-12-01T12:41:56  2027-12-01T12:41:56  365-00:00:00  n3\n"
            );
        });
        with_shown(START, |shown| {
            assert!(show(&views[0], true, shown).contains(" State=ACTIVE "));
        });
        assert_eq!(not_found("x"), "Reservation x not found\n");
    }
}
