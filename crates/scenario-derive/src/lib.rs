//! `#[derive(Described)]`: what a scenario's table may hold, from the type that it is read into.
//!
//! Room: the declaration of a setting is the field that it is read into: its name, its type, the first
//! paragraph of its documentation, serde's default, and `#[schema(...)]` for what Rust's types do not say:
//! `unit = "W"`, and the range as `least`, `above`, `most` and `below`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Expr, ExprLit, Field, Fields, Lit, Meta, Token};

/// Derives `ebb_scenario::Described` for structs with named fields and for enums that are a word each.
#[proc_macro_derive(Described, attributes(schema))]
pub fn described(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    derived(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn derived(input: &DeriveInput) -> syn::Result<Tokens> {
    let refused = |what| Err(syn::Error::new_spanned(&input.ident, what));
    let (kind, value) = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => table(input, fields.named.iter())?,
            _ => return refused("only fields with names have settings' names"),
        },
        Data::Enum(data) => words(input, data)?,
        Data::Union(_) => return refused("a union is no setting"),
    };
    let name = &input.ident;
    let (generics, names, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::ebb_scenario::Described for #name #names #bounds {
            fn kind() -> ::ebb_scenario::schema::Kind { #kind }
            fn value(&self) -> ::core::option::Option<::ebb_scenario::schema::Value> { #value }
        }
    })
}

fn table<'a>(
    input: &DeriveInput,
    fields: impl Iterator<Item = &'a Field>,
) -> syn::Result<(Tokens, Tokens)> {
    let about = sentence(&input.attrs);
    let default = serde(&input.attrs, "default")?.is_some();
    let (mut described, mut values) = (Vec::new(), Vec::new());
    for field in fields {
        let name = field.ident.as_ref().expect("named fields");
        let shown = serde(&field.attrs, "rename")?.flatten().unwrap_or_else(|| name.to_string());
        let (ty, sentence) = (&field.ty, sentence(&field.attrs));
        let own = serde(&field.attrs, "default")?;
        let presence = match own {
            Some(Some(path)) => {
                let path: syn::Path = syn::parse_str(&path)?;
                quote!(::ebb_scenario::schema::Presence::of(&#path()))
            }
            Some(None) => quote!(::ebb_scenario::schema::Presence::of(
                &<#ty as ::core::default::Default>::default()
            )),
            None if default => quote!(::ebb_scenario::schema::Presence::of(&whole.#name)),
            None => quote!(<#ty as ::ebb_scenario::Described>::PRESENCE),
        };
        let settings = settings(&field.attrs)?;
        described.push(quote! {
            ::ebb_scenario::schema::Field {
                name: #shown,
                about: #sentence,
                kind: <#ty as ::ebb_scenario::Described>::kind(),
                presence: #presence,
                ..::ebb_scenario::schema::Field { #(#settings,)* ..::core::default::Default::default() }
            }
        });
        values.push(quote! {
            if let ::core::option::Option::Some(value) = ::ebb_scenario::Described::value(&self.#name) {
                table.insert(#shown.to_owned(), value);
            }
        });
    }
    let whole = default.then(|| quote!(let whole = <Self as ::core::default::Default>::default();));
    let kind = quote! {
        #whole
        ::ebb_scenario::schema::Kind::Table(::ebb_scenario::schema::Schema {
            about: #about,
            fields: ::std::vec![#(#described),*],
        })
    };
    let value = quote! {
        let mut table = ::ebb_scenario::schema::Table::new();
        #(#values)*
        ::core::option::Option::Some(::ebb_scenario::schema::Value::Table(table))
    };
    Ok((kind, value))
}

fn words(input: &DeriveInput, data: &syn::DataEnum) -> syn::Result<(Tokens, Tokens)> {
    let case = serde(&input.attrs, "rename_all")?.flatten().unwrap_or_default();
    let (mut choices, mut arms) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let what = "only words can be described: implement `Described` by hand";
            return Err(syn::Error::new_spanned(variant, what));
        }
        let (ident, about) = (&variant.ident, sentence(&variant.attrs));
        let own = serde(&variant.attrs, "rename")?.flatten();
        let word = own.unwrap_or_else(|| cased(&ident.to_string(), &case));
        choices.push(quote!((#word, #about)));
        arms.push(quote!(Self::#ident => #word,));
    }
    let kind = quote!(::ebb_scenario::schema::Kind::Choice(::std::vec![#(#choices),*]));
    let value = quote! {
        let word = match self { #(#arms)* };
        ::core::option::Option::Some(::ebb_scenario::schema::Value::String(word.to_owned()))
    };
    Ok((kind, value))
}

/// A name as serde's `rename_all` writes it.
fn cased(name: &str, case: &str) -> String {
    let separator = match case {
        "lowercase" => return name.to_lowercase(),
        "kebab-case" => "-",
        "snake_case" => "_",
        _ => return name.to_owned(),
    };
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out += separator;
        }
        out.extend(letter.to_lowercase());
    }
    out
}

/// The first paragraph of the documentation, in one line.
fn sentence(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { continue };
        match text.value().trim() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    lines.join(" ")
}

/// What `#[serde(key)]` or `#[serde(key = "text")]` says: `None` if absent, `Some(None)` without text.
fn serde(attributes: &[Attribute], key: &str) -> syn::Result<Option<Option<String>>> {
    let mut found = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let inner = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
        for meta in inner.iter().filter(|meta| meta.path().is_ident(key)) {
            found = Some(match meta {
                Meta::NameValue(pair) => match &pair.value {
                    Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            });
        }
    }
    Ok(found)
}

/// The fields that `#[schema(...)]` sets.
fn settings(attributes: &[Attribute]) -> syn::Result<Vec<Tokens>> {
    let mut set = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("schema")) {
        attribute.parse_nested_meta(|meta| {
            let value: Lit = meta.value()?.parse()?;
            let known = ["unit", "least", "above", "most", "below"];
            let Some(key) = known.into_iter().find(|key| meta.path.is_ident(key)) else {
                return Err(meta.error("unit, least, above, most or below"));
            };
            let name = syn::Ident::new(key, proc_macro2::Span::call_site());
            set.push(match key {
                "unit" => quote!(#name: #value),
                _ => quote!(#name: ::core::option::Option::Some(#value as f64)),
            });
            Ok(())
        })?;
    }
    Ok(set)
}
