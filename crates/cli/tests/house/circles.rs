//! Files of one crate that need each other in a circle.
//!
//! File A *needs* file B where code in A names something that B defines: a type, a trait, a function, a constant or a
//! macro, by whatever way the name comes in. So
//!
//! - a name is followed through `use`, `pub use` and globs to the file that defines it; the modules on the way do not
//!   count. A `mod.rs` that only declares and re-exports its children is in no circle, whatever they use of each other;
//! - a private `use` is a need. A `pub use`, of whatever visibility, is an address: it becomes a need only where code of
//!   that file says the name;
//! - where something is named that the reader does not find (a macro made it), the file of the module that was named
//!   counts;
//! - methods do not count, since a call does not name their file, nor does the documentation;
//! - what is under `#[cfg(test)]` does not count.
//!
//! A circle is a largest group of files each of which needs each other one, directly or around.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, UseTree, Visibility};

/// What one file names of others: for each, the names.
pub type Needs = BTreeMap<PathBuf, BTreeSet<String>>;

/// Files that need each other, and what each names of the others.
pub type Circle = BTreeMap<PathBuf, Needs>;

/// The circles among the files below a crate's `src`.
pub fn circles(src: &Path) -> Vec<Circle> {
    let roots = ["lib.rs", "main.rs"].map(|name| src.join(name));
    let mut found = Vec::new();
    for root in roots.iter().filter(|root| root.exists()) {
        found.extend(groups(&needs(root)));
    }
    found
}

/// What each file of the crate whose root is `root` needs of others.
fn needs(root: &Path) -> BTreeMap<PathBuf, Needs> {
    let mut tree = Tree::default();
    tree.load(root, None, root.parent().expect("a folder").to_owned());
    let mut all: BTreeMap<PathBuf, Needs> = BTreeMap::new();
    for module in &tree.modules {
        let own = all.entry(module.file.clone()).or_default();
        let named = module.named.iter();
        let named = named.flat_map(|path| tree.resolve(module.id, path, &mut Vec::new()));
        let invoked = module.invoked.iter();
        let invoked = invoked.flat_map(|path| tree.resolve_macro(module.id, path));
        for target in named.chain(invoked) {
            if let Target::Item(file, name) = target
                && file != module.file
            {
                own.entry(file).or_default().insert(name);
            }
        }
    }
    all
}

/// The groups of files that reach each other.
fn groups(needs: &BTreeMap<PathBuf, Needs>) -> Vec<Circle> {
    let reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = needs
        .keys()
        .map(|start| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(file) = open.pop() {
                for next in needs.get(file).into_iter().flat_map(BTreeMap::keys) {
                    if seen.insert(next) {
                        open.push(next);
                    }
                }
            }
            (start, seen)
        })
        .collect();
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    for (file, reached) in &reach {
        let group: BTreeSet<&PathBuf> = reached
            .iter()
            .copied()
            .filter(|other| reach.get(other).is_some_and(|back| back.contains(file)))
            .collect();
        if group.contains(file) && done.insert(group.clone()) {
            let inside = |file: &&PathBuf| {
                let of_group = needs[*file]
                    .iter()
                    .filter(|(other, _)| group.contains(other));
                let of_group = of_group.map(|(other, names)| (other.clone(), names.clone()));
                ((*file).clone(), of_group.collect())
            };
            found.push(group.iter().map(inside).collect());
        }
    }
    found
}

/// The modules of a crate.
#[derive(Default)]
struct Tree {
    modules: Vec<Module>,
    /// The files of `macro_rules!`, which are known by name alone to what comes after them.
    macros: HashMap<String, PathBuf>,
}

struct Module {
    id: usize,
    file: PathBuf,
    parent: Option<usize>,
    children: HashMap<String, Vec<usize>>,
    items: HashSet<String>,
    uses: Vec<Use>,
    /// The paths that its code says.
    named: HashSet<Vec<String>>,
    /// The paths of macros that it calls.
    invoked: HashSet<Vec<String>>,
}

struct Use {
    /// The name it has here, or none for a glob.
    name: Option<String>,
    path: Vec<String>,
}

/// What a path leads to.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Target {
    Module(usize),
    Item(PathBuf, String),
    /// Something of another crate.
    Outside,
}

impl Tree {
    /// Reads a file and the files of its modules. Those lie below `folder`.
    fn load(&mut self, file: &Path, parent: Option<usize>, folder: PathBuf) -> usize {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        self.add(file, parent, &parsed.items, &folder)
    }

    fn add(&mut self, file: &Path, parent: Option<usize>, items: &[Item], folder: &Path) -> usize {
        let id = self.modules.len();
        self.modules.push(Module {
            id,
            file: file.to_owned(),
            parent,
            children: HashMap::new(),
            items: HashSet::new(),
            uses: Vec::new(),
            named: HashSet::new(),
            invoked: HashSet::new(),
        });
        let mut reader = Reader::default();
        for item in items {
            let Item::Mod(module) = item else {
                reader.visit_item(item);
                continue;
            };
            if only_for_tests(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let children: Vec<usize> = match &module.content {
                Some((_, items)) => vec![self.add(file, Some(id), items, &folder.join(&name))],
                None => module_files(file, folder, &name, &module.attrs)
                    .into_iter()
                    .map(|(file, folder)| self.load(&file, Some(id), folder))
                    .collect(),
            };
            let known = self.modules[id].children.entry(name).or_default();
            known.extend(children);
        }
        for name in reader.macros {
            self.macros.insert(name, file.to_owned());
        }
        let own = &mut self.modules[id];
        own.items = reader.items;
        own.uses = reader.uses;
        own.named = reader.named;
        own.invoked = reader.invoked;
        id
    }

    /// What a name means inside a module. `open` holds the imports that are being followed: those are not followed
    /// again.
    fn look_up(&self, id: usize, name: &str, open: &mut Vec<(usize, usize)>) -> HashSet<Target> {
        let module = &self.modules[id];
        let mut found = HashSet::new();
        let children = module.children.get(name).into_iter().flatten();
        found.extend(children.map(|id| Target::Module(*id)));
        if module.items.contains(name) {
            found.insert(Target::Item(module.file.clone(), name.to_owned()));
        }
        for glob in [false, true] {
            if glob && !found.is_empty() {
                break;
            }
            for (index, import) in module.uses.iter().enumerate() {
                let fits = import
                    .name
                    .as_deref()
                    .map_or(glob, |own| !glob && own == name);
                if !fits || open.contains(&(id, index)) {
                    continue;
                }
                open.push((id, index));
                for target in self.resolve(id, &import.path, open) {
                    match target {
                        Target::Module(from) if glob => {
                            found.extend(self.look_up(from, name, open))
                        }
                        _ if glob => {}
                        target => _ = found.insert(target),
                    }
                }
                open.pop();
            }
        }
        found
    }

    /// What a path means inside a module.
    fn resolve(
        &self,
        id: usize,
        path: &[String],
        open: &mut Vec<(usize, usize)>,
    ) -> HashSet<Target> {
        let mut at = id;
        let mut rest = path;
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "self" => {}
                "super" => at = self.modules[at].parent.unwrap_or(at),
                "crate" => {
                    while let Some(parent) = self.modules[at].parent {
                        at = parent;
                    }
                }
                _ => break,
            }
            rest = after;
        }
        let mut found = HashSet::from([Target::Module(at)]);
        for (index, name) in rest.iter().enumerate() {
            let last = index + 1 == rest.len();
            let mut next = HashSet::new();
            for target in found {
                let Target::Module(module) = target else {
                    next.insert(target);
                    continue;
                };
                let inner = self.look_up(module, name, open);
                if !inner.is_empty() {
                    next.extend(inner);
                } else if index == 0 && rest.len() == path.len() {
                    next.insert(Target::Outside);
                } else {
                    let known = self.macros.get(name).filter(|_| last);
                    let file = known.unwrap_or(&self.modules[module].file);
                    next.insert(Target::Item(file.clone(), name.clone()));
                }
            }
            // A module and a function may have one name.
            let wanted = |target: &Target| matches!(target, Target::Module(_)) != last;
            if next.iter().any(wanted) {
                next.retain(wanted);
            }
            found = next;
        }
        found
    }

    /// What the macro of that path is.
    fn resolve_macro(&self, id: usize, path: &[String]) -> HashSet<Target> {
        let name = path.last().expect("a name");
        match self.macros.get(name) {
            Some(file) => HashSet::from([Target::Item(file.clone(), format!("{name}!"))]),
            None => self.resolve(id, path, &mut Vec::new()),
        }
    }
}

/// The files that a `mod name;` may mean, and the folder of the modules below each.
fn module_files(
    file: &Path,
    folder: &Path,
    name: &str,
    attributes: &[Attribute],
) -> Vec<(PathBuf, PathBuf)> {
    let beside = file.parent().expect("a folder");
    let mut given: Vec<(PathBuf, PathBuf)> = Vec::new();
    for attribute in attributes {
        let path = match &attribute.meta {
            Meta::List(list) if list.path.is_ident("cfg_attr") => {
                parts(list).iter().find_map(path_attribute)
            }
            meta => path_attribute(meta),
        };
        if let Some(path) = path {
            let file = beside.join(path);
            given.push((file.clone(), file.parent().expect("a folder").to_owned()));
        }
    }
    let plain = [
        folder.join(format!("{name}.rs")),
        folder.join(name).join("mod.rs"),
    ];
    let plain = plain.into_iter().find(|file| file.exists());
    given.extend(
        plain
            .filter(|_| given.is_empty())
            .map(|file| (file, folder.join(name))),
    );
    assert!(!given.is_empty(), "{file:?}: no file for `mod {name};`");
    given
}

/// The file that a `path = "..."` names.
fn path_attribute(meta: &Meta) -> Option<String> {
    let Meta::NameValue(pair) = meta else {
        return None;
    };
    match &pair.value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) => pair.path.is_ident("path").then(|| text.value()),
        _ => None,
    }
}

/// What stands between the parentheses of an attribute.
fn parts(list: &syn::MetaList) -> Vec<Meta> {
    let parts = syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated;
    let parts = list.parse_args_with(parts).unwrap_or_default();
    parts.into_iter().collect()
}

/// Whether something is compiled for tests only.
fn only_for_tests(attributes: &[Attribute]) -> bool {
    fn needs_test(meta: &Meta) -> bool {
        let Meta::List(list) = meta else {
            return meta.path().is_ident("test");
        };
        let parts = parts(list);
        match list.path.get_ident().map(ToString::to_string).as_deref() {
            Some("all" | "cfg") => parts.iter().any(needs_test),
            Some("any") => parts.iter().all(needs_test),
            _ => false,
        }
    }
    let of_test = |attribute: &Attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg") && needs_test(&attribute.meta))
    };
    attributes.iter().any(of_test)
}

/// Collects what a module defines, imports and names.
#[derive(Default)]
struct Reader {
    items: HashSet<String>,
    macros: Vec<String>,
    uses: Vec<Use>,
    named: HashSet<Vec<String>>,
    invoked: HashSet<Vec<String>>,
}

impl Reader {
    fn import(&mut self, mut path: Vec<String>, tree: &UseTree, private: bool) {
        let name = match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                return self.import(path, &part.tree, private);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(path.clone(), tree, private);
                }
                return;
            }
            UseTree::Glob(_) => None,
            UseTree::Name(name) if name.ident == "self" => path.last().cloned(),
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                path.last().cloned()
            }
            UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                Some(rename.rename.to_string())
            }
        };
        if private {
            self.named.insert(path.clone());
        }
        self.uses.push(Use { name, path });
    }

    /// The paths that the tokens of a macro say.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, sign: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == sign);
        let mut at = 0;
        while at < tokens.len() {
            let start = at;
            at += 1;
            match &tokens[start] {
                TokenTree::Group(group) => self.scan(group.stream()),
                TokenTree::Ident(first) => {
                    let mut path = vec![first.to_string()];
                    while is(at, ':')
                        && is(at + 1, ':')
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 2)
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    let before = |sign| start > 0 && is(start - 1, sign);
                    let of_macro = before('$') && first != "crate";
                    if before('.') || before('\'') || of_macro {
                        continue;
                    }
                    let called = matches!(tokens.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                    if is(at, '!') && !is(at + 1, '=') {
                        self.invoked.insert(path);
                    } else if path.len() > 1 || called || path[0].starts_with(char::is_uppercase) {
                        self.named.insert(path);
                    }
                }
                _ => {}
            }
        }
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|part| part.ident.to_string())
        .collect()
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Use(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if only_for_tests(attributes) {
            return;
        }
        self.items.extend(name.map(ToString::to_string));
        match item {
            Item::Use(item) => {
                let private = matches!(item.vis, Visibility::Inherited);
                if item.leading_colon.is_none() {
                    self.import(Vec::new(), &item.tree, private);
                }
            }
            Item::Macro(item) if item.ident.is_some() => {
                self.macros.extend(name.map(ToString::to_string));
                self.scan(item.mac.tokens.clone());
            }
            item => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes: &[Attribute] = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            _ => &[],
        };
        if !only_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !only_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.named.insert(segments(path));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.invoked.insert(segments(&call.path));
        self.scan(call.tokens.clone());
    }
}

#[test]
fn a_planted_circle_is_seen() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planted");
    let plant = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, text).expect("a file");
    };
    // Declarations and addresses are no needs, nor are tests.
    plant(
        "lib.rs",
        "mod a; #[path = \"elsewhere.rs\"] mod b; mod c; pub use a::*; pub(crate) use c::{C, d::D};",
    );
    plant(
        "a.rs",
        "use super::*; pub struct A(C); impl A { fn f() { plain!(b::word()) } }",
    );
    plant(
        "elsewhere.rs",
        "pub fn word() -> crate::D { crate::D } #[cfg(test)] mod tests { use crate::A; }",
    );
    plant(
        "c/mod.rs",
        "pub mod d; pub struct C; #[cfg(test)] use super::A;",
    );
    plant(
        "c/d.rs",
        "pub struct D; use std::sync::Arc; fn a(x: Arc<u8>, a: A) {}",
    );
    assert_eq!(circles(&folder), []);
    // The last one's `A` comes in by a glob of a parent.
    plant("c/d.rs", "use super::super::*; pub struct D; fn a(a: A) {}");
    let name = |name: &str| folder.join(name);
    let needs =
        |file: &str, names: &[&str]| (name(file), names.iter().map(ToString::to_string).collect());
    let planted = [
        (
            name("a.rs"),
            Needs::from([needs("elsewhere.rs", &["word"])]),
        ),
        (name("c/d.rs"), Needs::from([needs("a.rs", &["A"])])),
        (name("elsewhere.rs"), Needs::from([needs("c/d.rs", &["D"])])),
    ];
    assert_eq!(circles(&folder), [Circle::from(planted)]);
}
