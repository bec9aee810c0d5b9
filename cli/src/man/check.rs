//! What is wrong with a manual page: the faults that `groff -ww` and `mandoc -Tlint` would find in what [`super::roff`] can
//! write, without either.

/// Requests that the pages use, and whether they take words behind them.
const REQUESTS: &[&str] = &[".TH", ".nh", ".ad", ".SH", ".SS", ".PP", ".TP", ".IP", ".nf", ".fi", ".RS", ".RE"];
/// Escapes that the pages use.
const ESCAPES: &[&str] = &["\\-", "\\e", "\\&", "\\fB", "\\fR", "\\(aq", "\\(ga", "\\(ha", "\\(ti"];
/// Sections, in their order; a page has some of them, the first ones always.
const SECTIONS: &[&str] = &[
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "COMMANDS",
    "OPTIONS",
    "FIELDS",
    "KEYS",
    "ENVIRONMENT",
    "FILES",
    "EXIT STATUS",
    "EXAMPLES",
    "SEE ALSO",
];

/// Every fault, as `line: what`.
pub fn faults(page: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut sections: Vec<&str> = Vec::new();
    let (mut literal, mut inset) = (false, 0);
    let lines: Vec<&str> = page.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let mut fault = |what: &str| out.push(format!("{}: {what}: {line}", at + 1));
        let next = lines.get(at + 1).copied().unwrap_or_default();
        line_faults(line).into_iter().for_each(&mut fault);
        let request = line.split(' ').next().unwrap_or_default();
        match request {
            ".nf" if literal => fault("nested"),
            ".nf" => literal = true,
            ".fi" if !literal => fault("not opened"),
            ".fi" => literal = false,
            ".RS" => inset += 1,
            ".RE" if inset == 0 => fault("not opened"),
            ".RE" => inset -= 1,
            ".SH" => {
                sections.push(line.get(4..).unwrap_or_default());
                if literal || inset != 0 {
                    fault("opened and not closed");
                }
            }
            "" if !literal => fault("empty line"),
            _ => {}
        }
        let is_empty_part = matches!(request, ".SH" | ".PP" | ".IP" | ".TP")
            && (next.is_empty() || next.starts_with(".SH") || next.starts_with(".PP") || next.starts_with(".TP"));
        let headed = request == ".SH" && next.starts_with(".TP");
        if is_empty_part && !headed {
            fault("nothing follows");
        }
        let no_meaning = at > 0 && lines.get(at - 1) == Some(&".TP") && next.starts_with('.');
        if no_meaning {
            fault("a term without a meaning");
        }
    }
    if !lines.get(1).is_some_and(|line| line.starts_with(".TH \"")) {
        out.push("2: no title".to_owned());
    }
    let order: Vec<Option<usize>> =
        sections.iter().map(|name| SECTIONS.iter().position(|known| known == name)).collect();
    if order.contains(&None) || !order.is_sorted() || !sections.starts_with(SECTIONS.get(..3).unwrap_or_default()) {
        out.push(format!("sections {sections:?} are not {SECTIONS:?}"));
    }
    out
}

fn line_faults(line: &str) -> Vec<&'static str> {
    if line.starts_with(".\\\"") {
        return Vec::new();
    }
    let mut out = Vec::new();
    let request = line.split(' ').next().unwrap_or_default();
    if request.starts_with('.') && !REQUESTS.contains(&request) {
        out.push("unknown request");
    }
    if line.starts_with('\'') {
        out.push("a request by accident");
    }
    if !line.is_ascii() || line.contains('\t') {
        out.push("a sign that not every terminal has");
    }
    if line.ends_with(' ') {
        out.push("a blank at the end");
    }
    if line.contains('`') {
        out.push("a backquote without its other");
    }
    if line.matches("\\fB").count() != line.matches("\\fR").count() {
        out.push("bold to no end");
    }
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        rest = rest.get(at..).unwrap_or_default();
        match ESCAPES.iter().find(|escape| rest.starts_with(**escape)) {
            Some(escape) => rest = rest.get(escape.len()..).unwrap_or_default(),
            None => {
                out.push("unknown escape");
                break;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str =
        ".\\\" made\n.TH \"X\" 1 \"2026-12-01\" \"g\" \"m\"\n.SH NAME\nx \\- y\n.SH SYNOPSIS\nx\n.SH DESCRIPTION\n";

    #[test]
    fn faults_are_found() {
        for (body, fault) in [
            ("a \\fBb\\fR\n", ""),
            (".TP\n\\fB\\-a\\fR\nmeaning\n.PP\nmore\n.nf\n.RS 4\n\nx\n.RE\n.fi\n", ""),
            (".XX\nb\n", "unknown request"),
            ("a \\x b\n", "unknown escape"),
            ("a \\fBb\n", "bold to no end"),
            ("a\n\nb\n", "empty line"),
            ("a\n.TP\n\\-a\n.TP\n\\-b\nx\n", "a term without a meaning"),
            ("a\n.PP\n", "nothing follows"),
            ("a\n.nf\nx\n.SH EXAMPLES\ny\n", "opened and not closed"),
            ("a\n.fi\n", "not opened"),
            ("a ` b\n", "backquote"),
            ("a\u{2014}b\n", "not every terminal"),
            ("a\n.SH OTHER\nx\n", "sections"),
            ("a\n.SH EXAMPLES\nx\n.SH OPTIONS\ny\n", "sections"),
        ] {
            let found = faults(&format!("{SOUND}{body}"));
            let right = if fault.is_empty() { found.is_empty() } else { found.iter().any(|f| f.contains(fault)) };
            assert!(right, "{body:?}: {found:?}");
        }
    }
}
