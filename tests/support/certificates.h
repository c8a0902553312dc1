// A certificate authority for tests, and certificates that it signs, with keys on the curve P-256.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace autocfg::test {

struct PemPair {
  std::string certificate;
  std::string key;
};

class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name)
      : key_(NewKey()), certificate_(Sign(name, "", *key_, /*authority=*/true, kDaySeconds)) {}

  // In PEM form.
  std::string certificate() const { return Pem(PEM_write_bio_X509, certificate_.get()); }

  // Returns a certificate for the hosts ("DNS:localhost,IP:127.0.0.1") that ends in `seconds`; negative: that
  // has ended. `name`: its common name.
  PemPair Issue(const std::string& name, const std::string& hosts, long seconds = kDaySeconds) const {
    const Key key = NewKey();
    const Certificate certificate = Sign(name, hosts, *key, /*authority=*/false, seconds);
    return {Pem(PEM_write_bio_X509, certificate.get()), KeyPem(*key)};
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(BIO* bio) const { BIO_free(bio); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;
  using Bio = std::unique_ptr<BIO, Free>;

  static constexpr long kDaySeconds = 24 * 3600;
  static constexpr long kLongAgoSeconds = -30 * kDaySeconds;

  static void Need(bool ok) {
    if (!ok) throw std::runtime_error("OpenSSL cannot make a certificate");
  }
  static Key NewKey() {
    Key key(EVP_EC_gen("P-256"));
    Need(key != nullptr);
    return key;
  }
  static void AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
    Need(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
  }
  Certificate Sign(const std::string& name, const std::string& hosts, EVP_PKEY& key, bool authority,
                   long seconds) const {
    Certificate certificate(X509_new());
    Need(certificate != nullptr);
    X509* made = certificate.get();
    X509* issuer = authority ? made : certificate_.get();
    static long serial = 0;
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made), kLongAgoSeconds);
    X509_gmtime_adj(X509_getm_notAfter(made), seconds);
    X509_set_pubkey(made, &key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(made, X509_get_subject_name(issuer));
    AddExtension(made, issuer, NID_basic_constraints, authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (!hosts.empty()) AddExtension(made, issuer, NID_subject_alt_name, hosts);
    Need(X509_sign(made, key_.get(), EVP_sha256()) > 0);
    return certificate;
  }
  template <typename Write, typename Object>
  static std::string Pem(Write write, const Object* object) {
    const Bio bio(BIO_new(BIO_s_mem()));
    Need(bio != nullptr && write(bio.get(), object) == 1);
    return Text(*bio);
  }
  static std::string KeyPem(EVP_PKEY& key) {
    const Bio bio(BIO_new(BIO_s_mem()));
    Need(bio != nullptr &&
         PEM_write_bio_PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
    return Text(*bio);
  }
  static std::string Text(BIO& bio) {
    const char* data = nullptr;
    const long size = BIO_get_mem_data(&bio, &data);
    return {data, static_cast<std::size_t>(size)};
  }

  const Key key_;
  const Certificate certificate_;
};

}  // namespace autocfg::test
