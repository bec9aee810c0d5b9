//! `load`: reads what `dump` wrote.

use gpun_core::accounting::{Change, ROOT, RuleChange, change::Place};

use super::{
    Proposal, Stop, World,
    settings::{self, Taken},
    show::admin_level,
    words::Word,
};

/// A line of the file: what it is, its name, and its settings.
struct Line {
    kind: String,
    name: String,
    words: Vec<Word>,
}

/// Cuts a line at colons that stand in no quotes.
fn cut(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut quote) = (Vec::new(), String::new(), None);
    for c in text.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (':', None) => parts.push(std::mem::take(&mut part)),
            (c, _) => part.push(c),
        }
    }
    parts.push(part);
    parts
}

fn line(text: &str) -> Option<Line> {
    let (kind, rest) = text.split_once('-')?;
    let mut parts = cut(rest.trim()).into_iter();
    let name = parts.next()?.trim().to_lowercase();
    Some(Line { kind: kind.trim().to_lowercase(), name, words: parts.map(|part| Word::read(part.trim())).collect() })
}

struct Loader<'a> {
    world: &'a World,
    /// As the records will be.
    after: gpun_core::accounting::Book,
    changes: Vec<Change>,
    accounts: String,
    users: String,
    associations: String,
}

impl Loader<'_> {
    fn change(&mut self, change: Change) -> Result<(), String> {
        self.after.change(&change).map_err(|refusal| refusal.to_string())?;
        self.changes.push(change);
        Ok(())
    }

    fn rules(&mut self, place: Place, rules: RuleChange) -> Result<(), String> {
        if rules == RuleChange::default() {
            return Ok(());
        }
        self.change(Change::ChangeAssociation { place, change: Box::new(rules) })
    }

    fn rule(&self, word: &Word, rules: &mut RuleChange) -> Result<(), String> {
        match settings::rule(&self.after, word, rules) {
            Taken::Yes => Ok(()),
            Taken::No => Err(format!("Unknown option: {}", word.text)),
            Taken::Bad(text) => Err(text.trim().to_owned()),
        }
    }

    fn cluster(&mut self, line: &Line) -> Result<(), String> {
        if line.name != self.world.cluster.to_lowercase() {
            return Err(format!(
                "this is the accounting of cluster {}, the file is of {}",
                self.world.cluster, line.name
            ));
        }
        if !self.after.is_founded() {
            self.change(Change::Found)?;
        }
        let mut rules = RuleChange::default();
        line.words.iter().try_for_each(|word| self.rule(word, &mut rules))?;
        self.rules(Place { account: ROOT.to_owned(), ..Place::default() }, rules)
    }

    fn account(&mut self, parent: &str, line: &Line) -> Result<(), String> {
        let (mut description, mut organization) = (line.name.clone(), parent.to_owned());
        let mut rules = RuleChange::default();
        for word in &line.words {
            if word.is("description", 3) {
                description.clone_from(&word.value);
            } else if word.is("organization", 1) {
                organization.clone_from(&word.value);
            } else {
                self.rule(word, &mut rules)?;
            }
        }
        let name = line.name.clone();
        if self.after.account(&name).is_none() {
            self.accounts.push_str(&format!("  {name}\n"));
            let parent = Some(parent.to_owned());
            self.change(Change::AddAccount { name: name.clone(), description, organization, parent })?;
        }
        self.rules(Place { account: name, ..Place::default() }, rules)
    }

    fn user(&mut self, parent: &str, line: &Line) -> Result<(), String> {
        let (mut admin, mut default, mut wckey, mut coordinates, mut partition) = (None, None, None, Vec::new(), None);
        let mut rules = RuleChange::default();
        for word in &line.words {
            if word.is("adminlevel", 2) {
                admin = Some(admin_level(&word.value).ok_or_else(|| format!("Bad admin level: {}", word.value))?);
            } else if word.is("defaultaccount", 8) {
                default = word.names().into_iter().next();
            } else if word.is("defaultwckey", 8) {
                wckey = word.names().into_iter().next();
            } else if word.is("coordinator", 2) {
                coordinates = word.names();
            } else if word.is("partition", 4) {
                partition = Some(word.value.clone());
            } else {
                self.rule(word, &mut rules)?;
            }
        }
        let name = line.name.clone();
        if self.after.user(&name).is_none() {
            self.users.push_str(&format!("  {name}\n"));
            self.change(Change::AddUser { name: name.clone(), uid: None })?;
        }
        let place = Place { account: parent.to_owned(), user: Some(name.clone()), partition };
        if self.after.at(&place).is_none() {
            self.associations.push_str(&super::add::place_line(&self.world.cluster, &place));
            self.change(Change::AddAssociation { place: place.clone() })?;
        }
        self.rules(place, rules)?;
        // The default account may come further down: it is said again with each of the user's lines.
        let has = |account: &String| self.after.associations_of(&name).any(|one| one.account == *account);
        let default_account = default.filter(has);
        let user = self.after.user(&name).cloned();
        let same = user.as_ref().is_some_and(|user| {
            default_account.as_ref().is_none_or(|one| user.default_account.as_ref() == Some(one))
                && admin.is_none_or(|level| level == user.admin)
                && wckey.as_ref().is_none_or(|key| user.default_wckey.as_ref() == Some(key))
        });
        if !same {
            let (name, default_wckey) = (name.clone(), wckey);
            self.change(Change::ChangeUser { name, uid: None, default_account, admin, default_wckey })?;
        }
        for account in coordinates {
            let known = self.after.account(&account).is_some();
            let is = user.as_ref().is_some_and(|user| user.coordinates.contains(&account));
            if known && !is {
                self.change(Change::AddCoordinator { account, user: name.clone() })?;
            }
        }
        Ok(())
    }
}

/// What loading a file would do.
///
/// # Errors
/// The line that can't be read, and why.
pub fn load(world: &World, text: &str) -> Result<Proposal, Stop> {
    let mut loader = Loader {
        world,
        after: world.book.clone(),
        changes: Vec::new(),
        accounts: String::new(),
        users: String::new(),
        associations: String::new(),
    };
    let mut parent = ROOT.to_owned();
    for (at, text) in text.lines().enumerate() {
        if text.trim().is_empty() || text.trim_start().starts_with('#') {
            continue;
        }
        let failed = |why: String| Stop::err(format!("sacctmgr: error: line {}: {why}\n", at + 1));
        let line = line(text).ok_or_else(|| failed(format!("misformatted line: {text}")))?;
        match line.kind.as_str() {
            "cluster" => loader.cluster(&line),
            "parent" if loader.after.account(&line.name).is_none() => {
                Err(format!("the parent {} has not been made before", line.name))
            }
            "parent" => {
                parent.clone_from(&line.name);
                Ok(())
            }
            "account" | "project" => loader.account(&parent, &line),
            "user" => loader.user(&parent, &line),
            other => Err(format!("misformatted line: `{other}` is no Cluster, Parent, Account or User")),
        }
        .map_err(failed)?;
    }
    if loader.changes.is_empty() {
        return Err(Stop { out: " Nothing new added.\n".to_owned(), err: String::new(), status: 0 });
    }
    let mut text = String::new();
    for (head, lines) in
        [("Accounts", &loader.accounts), ("Users", &loader.users), ("Associations", &loader.associations)]
    {
        if !lines.is_empty() {
            text.push_str(&format!(" {head}\n{lines}"));
        }
    }
    Ok(Proposal { text, changes: loader.changes, trouble: " Problem with requests: " })
}
