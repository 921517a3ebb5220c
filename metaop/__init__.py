"""metaop"""
