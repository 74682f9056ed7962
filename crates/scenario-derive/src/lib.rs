//! `#[derive(Described)]`: what a scenario's table may hold, from the type that it is read into.
//!
//! Room: the declaration of a setting is the field that it is read into: its name, its type, the first
//! paragraph of its documentation, serde's default, and `#[schema(...)]` for what Rust's types do not say:
//! `unit = "W"`, the range as `least`, `above`, `most` and `below`, of texts `choices`, the words they may be,
//! each with what it means, and `default`, a value that becomes the function `default_NAME`, for serde's
//! `default = "TYPE::default_NAME"`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Expr, ExprLit, Field, Fields, Lit, Meta, Token};

/// Derives `ebb_scenario::Described` for structs with named fields and for enums: of words, tagged inside
/// (`serde(tag)`) or told by what they hold (`serde(untagged)`).
#[proc_macro_derive(Described, attributes(schema, serde))]
pub fn described(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    derived(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

fn derived(input: &DeriveInput) -> syn::Result<Tokens> {
    let refused = |what| Err(syn::Error::new_spanned(&input.ident, what));
    let (kind, value) = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => table(input, fields.named.iter())?,
            _ => return refused("only named fields can be settings"),
        },
        Data::Enum(data) => match (serde(&input.attrs, "tag")?.flatten(), untagged(input)?) {
            (Some(tag), _) => tagged(input, data, &tag)?,
            (None, true) => either(data)?,
            (None, false) => words(input, data)?,
        },
        Data::Union(_) => return refused("a union cannot be a setting"),
    };
    let name = &input.ident;
    let (generics, names, bounds) = input.generics.split_for_impl();
    let defaults = match &input.data {
        Data::Struct(data) => defaults(&data.fields)?,
        _ => Vec::new(),
    };
    Ok(quote! {
        impl #generics #name #names #bounds { #(#defaults)* }
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
    let default = serde(&input.attrs, "default")?.is_some();
    let whole = default.then(|| quote!(let whole = <Self as ::core::default::Default>::default();));
    let (schema, values) = schema(&input.attrs, default, fields, |name| quote!(&self.#name))?;
    let kind = quote! {
        #whole
        ::ebb_scenario::schema::Kind::Table(#schema)
    };
    Ok((
        kind,
        quote!(::core::option::Option::Some(::ebb_scenario::schema::Value::Table({ #values }))),
    ))
}

/// The schema of a table, and the table of the values that `access` gives of each field.
fn schema<'a>(
    attributes: &[Attribute],
    default: bool,
    fields: impl Iterator<Item = &'a Field>,
    access: impl Fn(&syn::Ident) -> Tokens,
) -> syn::Result<(Tokens, Tokens)> {
    let about = sentence(attributes);
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
        let (settings, choices, _) = settings(&field.attrs)?;
        let choices = choices.map(|choices| quote!(.of(&::std::vec::Vec::from(#choices))));
        let value = access(name);
        described.push(quote! {
            ::ebb_scenario::schema::Field {
                name: #shown,
                about: #sentence,
                unit: <#ty as ::ebb_scenario::Described>::UNIT,
                kind: <#ty as ::ebb_scenario::Described>::kind() #choices,
                presence: #presence,
                ..::core::default::Default::default()
            } #(.#settings)*
        });
        for other in aliases(&field.attrs)? {
            let about = format!("The same as `{shown}`.");
            described.push(quote! {
                ::ebb_scenario::schema::Field {
                    name: #other,
                    about: #about,
                    kind: <#ty as ::ebb_scenario::Described>::kind(),
                    presence: ::ebb_scenario::schema::Presence::Optional,
                    ..::core::default::Default::default()
                }
            });
        }
        values.push(quote! {
            if let ::core::option::Option::Some(value) = ::ebb_scenario::Described::value(#value) {
                table.insert(#shown.to_owned(), value);
            }
        });
    }
    let schema = quote! {
        ::ebb_scenario::schema::Schema { about: #about, fields: ::std::vec![#(#described),*] }
    };
    let values = quote! {
        #[allow(unused_mut)]
        let mut table = ::ebb_scenario::schema::Table::new();
        #(#values)*
        table
    };
    Ok((schema, values))
}

fn untagged(input: &DeriveInput) -> syn::Result<bool> {
    Ok(serde(&input.attrs, "untagged")?.is_some())
}

/// What several types hold, told apart by the value.
fn either(data: &syn::DataEnum) -> syn::Result<(Tokens, Tokens)> {
    let (mut kinds, mut arms) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        let ident = &variant.ident;
        let ty = only(variant)?;
        kinds.push(quote!(<#ty as ::ebb_scenario::Described>::kind()));
        arms.push(quote!(Self::#ident(inner) => ::ebb_scenario::Described::value(inner),));
    }
    let kind = quote!(::ebb_scenario::schema::Kind::Either(::std::vec![#(#kinds),*]));
    Ok((kind, quote!(match self { #(#arms)* })))
}

/// The type of a variant that holds one value.
fn only(variant: &syn::Variant) -> syn::Result<&syn::Type> {
    match &variant.fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(&fields.unnamed[0].ty),
        _ => Err(syn::Error::new_spanned(variant, "only variants with one value can be described")),
    }
}

/// Tables of several shapes, told apart by the word in one of their settings.
fn tagged(input: &DeriveInput, data: &syn::DataEnum, tag: &str) -> syn::Result<(Tokens, Tokens)> {
    let case = serde(&input.attrs, "rename_all")?.flatten().unwrap_or_default();
    let (mut shapes, mut arms) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        let (ident, about) = (&variant.ident, sentence(&variant.attrs));
        let word = cased(&ident.to_string(), &case);
        let put = quote!(table.insert(#tag.to_owned(), ::ebb_scenario::schema::Value::String(#word.to_owned())););
        match &variant.fields {
            Fields::Unnamed(_) => {
                let ty = only(variant)?;
                shapes.push(quote!((#word, ::ebb_scenario::Schema {
                    about: #about, ..::ebb_scenario::Schema::of::<#ty>()
                })));
                arms.push(quote!(Self::#ident(inner) => {
                    let mut table = ::ebb_scenario::schema::table(inner);
                    #put
                    table
                }));
            }
            fields => {
                let names = fields.iter().map(|field| &field.ident);
                let (schema, values) =
                    schema(&variant.attrs, false, fields.iter(), |name| quote!(#name))?;
                shapes.push(quote!((#word, #schema)));
                arms.push(quote!(Self::#ident { #(#names),* } => {
                    let mut table = { #values };
                    #put
                    table
                }));
            }
        }
    }
    let kind = quote!(::ebb_scenario::schema::Kind::Tagged(#tag, ::std::vec![#(#shapes),*]));
    let value = quote!(::core::option::Option::Some(::ebb_scenario::schema::Value::Table(
        match self { #(#arms)* }
    )));
    Ok((kind, value))
}

fn words(input: &DeriveInput, data: &syn::DataEnum) -> syn::Result<(Tokens, Tokens)> {
    let case = serde(&input.attrs, "rename_all")?.flatten().unwrap_or_default();
    let (mut choices, mut arms) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let what = "only unit variants can be described: implement `Described` by hand";
            return Err(syn::Error::new_spanned(variant, what));
        }
        let (ident, about) = (&variant.ident, sentence(&variant.attrs));
        let own = serde(&variant.attrs, "rename")?.flatten();
        let word = own.unwrap_or_else(|| cased(&ident.to_string(), &case));
        choices.push(quote!((#word, #about)));
        for other in aliases(&variant.attrs)? {
            let about = format!("The same as `{word}`.");
            choices.push(quote!((#other, #about)));
        }
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

/// Other words that serde reads as the same.
fn aliases(attributes: &[Attribute]) -> syn::Result<Vec<String>> {
    let mut words = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute.parse_nested_meta(|meta| {
            if meta.input.peek(Token![=]) {
                let value: syn::LitStr = meta.value()?.parse()?;
                words.extend(meta.path.is_ident("alias").then(|| value.value()));
            }
            Ok(())
        })?;
    }
    Ok(words)
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

/// The functions of the defaults that fields declare.
fn defaults(fields: &Fields) -> syn::Result<Vec<Tokens>> {
    let mut functions = Vec::new();
    for field in fields {
        let (Some(name), (.., Some(value))) = (&field.ident, settings(&field.attrs)?) else {
            continue;
        };
        let (name, ty) = (quote::format_ident!("default_{name}"), &field.ty);
        functions.push(match &value {
            Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => {
                quote!(pub(crate) fn #name() -> #ty { ::core::convert::From::from(#value) })
            }
            value => quote!(pub(crate) fn #name() -> #ty { #value }),
        });
    }
    Ok(functions)
}

/// The fields that `#[schema(...)]` sets, as assignments, and the words that a text may be, the default.
fn settings(attributes: &[Attribute]) -> syn::Result<(Vec<Tokens>, Option<Expr>, Option<Expr>)> {
    let (mut set, mut choices, mut default) = (Vec::new(), None, None);
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("schema")) {
        attribute.parse_nested_meta(|meta| {
            let value: Expr = meta.value()?.parse()?;
            let known = ["unit", "least", "above", "most", "below", "choices", "default"];
            let Some(key) = known.into_iter().find(|key| meta.path.is_ident(key)) else {
                return Err(meta.error("unit, least, above, most, below, choices or default"));
            };
            let name = syn::Ident::new(key, proc_macro2::Span::call_site());
            match key {
                "choices" => choices = Some(value),
                "default" => default = Some(value),
                "unit" => set.push(quote!(#name(#value))),
                _ => set.push(quote!(#name((#value) as f64))),
            }
            Ok(())
        })?;
    }
    Ok((set, choices, default))
}
