j
location../../etc/passwdp