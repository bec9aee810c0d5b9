//! `scontrol show licenses`.

use gpun_core::view::LicenseView;

/// One licence in a block of two lines, or in one line.
pub fn show(license: &LicenseView, one_line: bool) -> String {
    let LicenseView { name, total, used } = license;
    let free = total.saturating_sub(*used);
    let joint = if one_line { " " } else { "\n    " };
    format!("LicenseName={name}{joint}Total={total} Used={used} Free={free} Reserved=0 Remote=no\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_lines() {
        let license = LicenseView { name: "matlab".to_owned(), total: 4, used: 3 };
        assert_eq!(show(&license, false), "LicenseName=matlab\n    Total=4 Used=3 Free=1 Reserved=0 Remote=no\n");
        assert_eq!(show(&license, true), "LicenseName=matlab Total=4 Used=3 Free=1 Reserved=0 Remote=no\n");
    }
}
