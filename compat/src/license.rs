//! Licences: `matlab:2,ansys` of a job, `matlab:10,ansys:2` of the configuration.

use gpun_core::settings::License;
use gpun_core::spec::LicenseRequest;

/// The text names no licences. Slurm finds this in the controller, so its text is an error of the submission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid license specification")]
pub struct LicenseError;

/// Reads what a job asks for: names, each perhaps with a number behind `:` or `=`, parted by `,` or `;`.
///
/// # Errors
/// [`LicenseError`].
pub fn parse(text: &str) -> Result<Vec<LicenseRequest>, LicenseError> {
    text.split([',', ';']).filter(|part| !part.is_empty()).map(one).collect()
}

fn one(part: &str) -> Result<LicenseRequest, LicenseError> {
    let (name, count) = part.split_once([':', '=']).map_or((part, None), |(name, count)| (name, Some(count)));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+' | '/');
    if name.is_empty() || !name.chars().all(plain) {
        return Err(LicenseError);
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse::<u32>().map_err(|_| LicenseError) } else { Err(LicenseError) }
    };
    Ok(LicenseRequest { name: name.to_owned(), count: count.map(number).transpose()? })
}

/// As it was asked for: `matlab:2,ansys`.
pub fn text(licenses: &[LicenseRequest]) -> String {
    let one = |license: &LicenseRequest| match license.count {
        Some(count) => format!("{}:{count}", license.name),
        None => license.name.clone(),
    };
    licenses.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Reads what a cluster has, in order of names; without a number there is one. A name that stands twice counts once, with the sum.
///
/// # Errors
/// [`LicenseError`].
pub fn parse_totals(text: &str) -> Result<Vec<License>, LicenseError> {
    let mut totals: Vec<License> = Vec::new();
    for LicenseRequest { name, count } in parse(text)? {
        let count = count.unwrap_or(1);
        match totals.iter_mut().find(|have| have.name == name) {
            Some(have) => have.total = have.total.checked_add(count).ok_or(LicenseError)?,
            None => totals.push(License { name, total: count }),
        }
    }
    totals.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_asks_for() {
        for (given, want) in [
            ("matlab", Some("matlab")),
            ("matlab:2,ansys", Some("matlab:2,ansys")),
            ("matlab:2;ansys", Some("matlab:2,ansys")),
            ("matlab=2", Some("matlab:2")),
            ("matlab:0", Some("matlab:0")),
            ("matlab:1,", Some("matlab:1")),
            ("matlab@flex:1", Some("matlab@flex:1")),
            ("", Some("")),
            ("matlab:x", None),
            ("matlab:", None),
            ("matlab:-1", None),
            ("matlab|ansys", None),
            (" matlab", None),
            ("matlab*2", None),
            (":2", None),
            ("matlab:99999999999", None),
        ] {
            assert_eq!(parse(given).ok().map(|all| text(&all)).as_deref(), want, "{given}");
        }
    }

    #[test]
    fn what_a_cluster_has() {
        let pairs = |text| parse_totals(text).map(|all| all.into_iter().map(|l| (l.name, l.total)).collect::<Vec<_>>());
        let want = vec![("ansys".to_owned(), 3), ("matlab".to_owned(), 10)];
        assert_eq!(pairs("matlab:10,ansys,ansys:2"), Ok(want));
        assert_eq!(pairs("a:4294967295,a"), Err(LicenseError));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(given in "[a-c:=,;|0-9 @]{0,16}") {
            if let Ok(all) = parse(&given) {
                proptest::prop_assert_eq!(parse(&text(&all)), Ok(all));
            }
            let _ = parse_totals(&given);
        }
    }
}
